package traffic

import (
	"context"
	"strings"

	. "github.com/onsi/gomega"

	"quintet.dev/quintet/conformance/suite"
)

// Resolver is what a pod's resolv.conf says.
type Resolver struct {
	Servers, Searches, Options []string
}

// ReadResolver reads the resolv.conf of a running pod.
func ReadResolver(ctx context.Context, t *suite.T, pod string) Resolver {
	content, _, err := t.Exec(ctx, pod, "", "testimage", "cat", "/etc/resolv.conf")
	t.Must(err, "read the resolv.conf of %s", pod)
	return parseResolver(content)
}

func parseResolver(content string) Resolver {
	var r Resolver
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			r.Servers = append(r.Servers, fields[1])
		case "search":
			r.Searches = fields[1:]
		case "options":
			r.Options = append(r.Options, fields[1:]...)
		}
	}
	return r
}

// ClusterDomain takes the cluster's domain from the first search of a pod whose policy is ClusterFirst.
func ClusterDomain(t *suite.T, r Resolver) string {
	t.Expect(r.Searches).NotTo(BeEmpty(), "the search path of a pod")
	domain, found := strings.CutPrefix(strings.TrimSuffix(r.Searches[0], "."), t.Namespace+".svc.")
	t.Expect(found).To(BeTrue(), "the first search %s is not that of the namespace", r.Searches[0])
	return domain
}
