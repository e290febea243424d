package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func namespaces(names ...string) []client.Object {
	var out []client.Object
	for _, name := range names {
		out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return out
}

// TestWhyAllOfNoNamespace: in a namespace that does not exist nothing is well; the error names those that do.
func TestWhyAllOfNoNamespace(t *testing.T) {
	var many []string
	for i := range 13 {
		many = append(many, fmt.Sprintf("n%02d", i))
	}
	for _, c := range []struct {
		has       []string
		namespace string
		want      string
	}{
		{[]string{"shop", "default"}, "shop", ""},
		{[]string{"shop", "default"}, "", ""}, // all namespaces
		{[]string{"shop", "default"}, "shpo", `namespace "shpo" does not exist; those that do: default, shop`},
		{nil, "shpo", `namespace "shpo" does not exist`},
		{many, "shpo", `namespace "shpo" does not exist; those that do: ` + strings.Join(many[:10], ", ") + " and 3 more"},
	} {
		objects := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(namespaces(c.has...)...).Build()
		var out bytes.Buffer
		err := (&app{out: &out}).whyAll(t.Context(), objects, whyFlags{namespace: c.namespace})
		switch {
		case c.want == "" && (err != nil || out.String() != "All is well in namespace "+c.namespace+".\n"):
			t.Errorf("%s: %v, %s", c.namespace, err, out.String())
		case c.want != "" && (err == nil || err.Error() != c.want || out.Len() > 0):
			t.Errorf("%s: %v, want %s; it prints %s", c.namespace, err, c.want, out.String())
		}
	}
}

// TestWhyAllWithoutNamespaces: a client that may not read namespaces is answered about the one it names.
func TestWhyAllWithoutNamespaces(t *testing.T) {
	objects := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewForbidden(corev1.Resource("namespaces"), key.Name, nil)
		}}).Build()
	var out bytes.Buffer
	if err := (&app{out: &out}).whyAll(t.Context(), objects, whyFlags{namespace: "shop"}); err != nil || out.Len() == 0 {
		t.Errorf("%v, %s", err, out.String())
	}
}
