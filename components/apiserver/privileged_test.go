package apiserver_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestAllowPrivileged: the flag decides of new pods, and of containers that come into others later.
func TestAllowPrivileged(t *testing.T) {
	const debugger = `{"spec":{"ephemeralContainers":[{"name":"d","image":"i","securityContext":{"privileged":true}}]}}`
	for _, allowed := range []bool{true, false} {
		f := start(t, withoutServiceAccounts, func(c *options.Config) { c.AllowPrivileged = allowed })
		pods := f.client(t).CoreV1().Pods("default")
		create := func(name string, privileged bool) error {
			_, err := pods.Create(t.Context(),
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
					Containers: []corev1.Container{
						{Name: "c", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: &privileged}}}}},
				metav1.CreateOptions{})
			return err
		}
		check := func(what string, err error, want string) {
			if allowed && err != nil ||
				!allowed && (!apierrors.IsInvalid(err) ||
					!strings.HasSuffix(err.Error(),
						want+".securityContext.privileged: Forbidden: disallowed by cluster policy")) {
				t.Errorf("%s, allowed %t: %v", what, allowed, err)
			}
		}
		if err := create("plain", false); err != nil {
			t.Fatal(err)
		}
		check("new pod", create("privileged", true), "spec.containers[0]")
		_, err := pods.Patch(t.Context(), "plain", types.StrategicMergePatchType, []byte(debugger),
			metav1.PatchOptions{}, "ephemeralcontainers")
		check("ephemeral container", err, "spec.ephemeralContainers[0]")
	}
}
