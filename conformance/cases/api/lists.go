package api

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/conformance/suite"
)

func pagination(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	const total = 23
	var want []string
	for i := range total {
		name := fmt.Sprintf("m%02d", i)
		want = append(want, name)
		_, err := maps.Create(ctx, configMap(name, map[string]string{"app": "pages"}), metav1.CreateOptions{})
		t.Must(err, "create")
	}
	first, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "app=pages", Limit: 10})
	t.Must(err, "first page")
	t.Expect(first.Items).To(HaveLen(10))
	t.Expect(first.Continue).NotTo(BeEmpty())
	got := namesOf(first.Items)

	t.Must(maps.Delete(ctx, "m22", metav1.DeleteOptions{}), "delete between the pages")
	_, err = maps.Create(ctx, configMap("m15x", map[string]string{"app": "pages"}), metav1.CreateOptions{})
	t.Must(err, "create between the pages")

	for token := first.Continue; token != ""; {
		page, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "app=pages", Limit: 10, Continue: token})
		t.Must(err, "next page")
		t.Expect(page.ResourceVersion).To(Equal(first.ResourceVersion), "all pages are of one moment")
		got = append(got, namesOf(page.Items)...)
		token = page.Continue
	}
	t.Expect(got).To(Equal(want))

	counted, err := maps.List(ctx, metav1.ListOptions{Limit: 10})
	t.Must(err, "list without selector")
	t.Expect(counted.RemainingItemCount).NotTo(BeNil(), "a chunk without selectors says how many remain")
	t.Expect(*counted.RemainingItemCount).To(BeNumerically(">=", total-10))
}

func listExact(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	before, err := maps.Create(ctx, configMap("one", map[string]string{"app": "exact"}), metav1.CreateOptions{})
	t.Must(err, "create")
	after := before.DeepCopy()
	after.Data["key"] = "changed"
	_, err = maps.Update(ctx, after, metav1.UpdateOptions{})
	t.Must(err, "update")
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "app=exact",
		ResourceVersion: before.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	t.Must(err, "list at the version of the creation")
	t.Expect(list.ResourceVersion).To(Equal(before.ResourceVersion))
	t.Expect(list.Items).To(ConsistOf(*before))
}

// restClient returns a client of the core group for one media type.
func restClient(t *suite.T, contentType string) *rest.RESTClient {
	config := rest.CopyConfig(t.Config)
	config.ContentType = contentType
	config.AcceptContentTypes = contentType
	config.APIPath = "/api"
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.NegotiatedSerializer = codecs
	client, err := rest.RESTClientFor(config)
	t.Must(err, "make a client for %s", contentType)
	return client
}

func protobufWire(ctx context.Context, t *suite.T) {
	const protobuf, json = "application/vnd.kubernetes.protobuf", "application/json"
	for writer, reader := range map[string]string{protobuf: json, json: protobuf} {
		var written, read corev1.ConfigMap
		body := configMap("one", map[string]string{"wire": "x"})
		body.BinaryData = map[string][]byte{"bin": {0, 1, 254, 255}}
		err := restClient(t,
			writer).Post().Namespace(t.Namespace).Resource("configmaps").Body(body).Do(ctx).Into(&written)
		t.Must(err, "create as %s", writer)
		err = restClient(t, reader).Get().Namespace(t.Namespace).Resource("configmaps").Name("one").Do(ctx).Into(&read)
		t.Must(err, "get as %s", reader)
		t.Expect(read).To(Equal(written))
		var list corev1.ConfigMapList
		err = restClient(t, reader).Get().Namespace(t.Namespace).Resource("configmaps").Param("labelSelector",
			"wire=x").Do(ctx).Into(&list)
		t.Must(err, "list as %s", reader)
		t.Expect(list.Items).To(ConsistOf(written))
		t.Must(t.Client.CoreV1().ConfigMaps(t.Namespace).Delete(ctx, "one", metav1.DeleteOptions{}), "delete")
	}
}

func deleteCollection(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	for i := range 6 {
		_, err := maps.Create(ctx,
			configMap(fmt.Sprintf("m%d", i), map[string]string{"app": "many", "odd": fmt.Sprint(i%2 == 1)}),
			metav1.CreateOptions{})
		t.Must(err, "create")
	}
	t.Must(maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd=true"}),
		"delete a collection")
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "app=many"})
	t.Must(err, "list")
	t.Expect(namesOf(list.Items)).To(ConsistOf("m0", "m2", "m4"))
}
