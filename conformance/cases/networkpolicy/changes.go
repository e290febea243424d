package networkpolicy

import (
	"context"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

func update(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "first", "second")
	create(ctx, t, from(pods("first")))
	blocked(ctx, t, "second", server)
	open(ctx, t, "first", server)
	replace(ctx, t, from(pods("second")))
	blocked(ctx, t, "first", server)
	open(ctx, t, "second", server)
}

func deleted(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "client")
	create(ctx, t, policy("first", "", ingress))
	create(ctx, t, policy("second", "server", ingress))
	blocked(ctx, t, "client", server)
	remove(ctx, t, "first")
	blocked(ctx, t, "client", server)
	remove(ctx, t, "second")
	open(ctx, t, "client", server)
}

// podLabel changes the labels of the client, and then those of the server.
func podLabel(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "client")
	create(ctx, t, from(pods("friend")))
	blocked(ctx, t, "client", server)
	traffic.Label(ctx, t, "client", "app", "friend")
	open(ctx, t, "client", server)
	traffic.Label(ctx, t, "client", "app", "")
	blocked(ctx, t, "client", server)
	traffic.Label(ctx, t, "server", "app", "free")
	open(ctx, t, "client", server)
}

func namespaceLabel(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "client")
	other := traffic.InNamespace(ctx, t, "team", "strangers")
	join(ctx, other, "client", server)
	create(ctx, t, from(namespaces("team", "friends")))
	blocked(ctx, other, "client", server)
	_, err := t.Client.CoreV1().Namespaces().Patch(ctx, other.Namespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"team":"friends"}}}`), metav1.PatchOptions{})
	t.Must(err, "label the namespace")
	open(ctx, other, "client", server)
	blocked(ctx, t, "client", server)
}

// newPod starts the new pod once the policy is in force, which an older pod shows. The client that is allowed shows
// that the new one answers.
func newPod(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "friend", "stranger")
	create(ctx, t, from(pods("friend")))
	blocked(ctx, t, "stranger", server)
	late := traffic.Start(ctx, t, traffic.Server(t, "late", "server"))["late"].Status.PodIP
	stranger := traffic.Get(t, "stranger", late, traffic.HTTPPort)
	traffic.Repeat(ctx, t, "no answer to the stranger from the start", 2, stranger, HaveField("OK", BeFalse()))
	open(ctx, t, "friend", late)
	traffic.Repeat(ctx, t, "no answer to the stranger", 2, stranger, HaveField("OK", BeFalse()))
}
