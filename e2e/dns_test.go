package e2e

import (
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// changeCorefile has cluster DNS serve a name of a zone of its own. The function that it returns waits until pods of an
// app resolve the name, and fails the test if CoreDNS was restarted for that.
func (w *world) changeCorefile() (expectReload func(app string)) {
	w.t.Helper()
	const zone, address = "reload.test", "192.0.2.7"
	before := w.dnsContainers()
	maps := w.client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	config, err := maps.Get(w.t.Context(), "coredns", metav1.GetOptions{})
	w.must(err, "get the configuration of CoreDNS")
	config.Data["Corefile"] += fmt.Sprintf("%s:53 {\n    hosts {\n        %s www.%s\n    }\n}\n", zone, address, zone)
	_, err = maps.Update(w.t.Context(), config, metav1.UpdateOptions{})
	w.must(err, "change the configuration of CoreDNS")
	return func(app string) {
		w.t.Helper()
		w.Eventually(func() (string, error) {
			out, err := w.inPod(app, "resolve", "www."+zone)()
			return strings.TrimSpace(out), err
		}).Should(Equal(address), "CoreDNS reloads its configuration")
		w.Expect(w.dnsContainers()).To(Equal(before), "the containers of CoreDNS are the same")
	}
}

// dnsContainers are the identifiers of CoreDNS's containers.
func (w *world) dnsContainers() []string {
	w.t.Helper()
	pods, err := w.client.CoreV1().Pods(metav1.NamespaceSystem).List(w.t.Context(),
		metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	w.must(err, "list the pods of CoreDNS")
	var ids []string
	for _, p := range pods.Items {
		for _, c := range p.Status.ContainerStatuses {
			ids = append(ids, c.ContainerID)
		}
	}
	return ids
}
