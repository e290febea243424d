package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/cluster"
)

// silentTimeout bounds each look at an API server that does not answer.
const silentTimeout = 5 * time.Second

// whySilent adds, to the error of a request that an API server did not answer, what is known of the reason: members of
// the cluster that do not run, and the server's own checks that fail, etcd's among them. name is "" for a cluster of
// others.
func (a *app) whySilent(ctx context.Context, err error, name string, config *rest.Config) error {
	if err == nil || answered(err) {
		return err
	}
	var known []string
	if name != "" {
		listing, cancel := context.WithTimeout(ctx, silentTimeout)
		defer cancel()
		if members, err := cluster.List(listing, name); err == nil {
			known = append(known, notRunning(members)...)
		}
	}
	known = append(known, failedChecks(ctx, config)...)
	if len(known) == 0 {
		return fmt.Errorf("the API server does not answer: %w", err)
	}
	return fmt.Errorf("the API server does not answer: %w\n  %s", err, strings.Join(known, "\n  "))
}

// answered tells whether an error is the API server's word about the request rather than about itself.
func answered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		var url interface{ Timeout() bool } // net/url's, of requests that failed
		return !errors.As(err, &url) && !errors.Is(err, context.DeadlineExceeded)
	}
	return status.Status().Code < 500
}

// notRunning says of the members on which answers depend what is wrong, and what helps.
func notRunning(members []cluster.Info) []string {
	depends := []cluster.Component{cluster.Etcd, cluster.APIServer, cluster.APIBalancer}
	var lines []string
	for _, m := range members {
		switch {
		case !slices.Contains(depends, m.Component) || m.State == "running":
		case m.State == "paused":
			lines = append(lines, fmt.Sprintf("%s is paused: quintet resume %s", m.Member, m.Member))
		default:
			lines = append(lines, fmt.Sprintf("%s does not run (%s): quintet logs %s, quintet start %s", m.Member, m.Status,
				m.Member, m.Member))
		}
	}
	return lines
}

// failedChecks are the lines of checks of /readyz that fail, if the server says as much.
func failedChecks(ctx context.Context, config *rest.Config) []string {
	asking := rest.CopyConfig(config)
	asking.Timeout = silentTimeout
	client, err := rest.HTTPClientFor(asking)
	if err != nil {
		return nil
	}
	base, _, err := rest.DefaultServerUrlFor(asking)
	if err != nil {
		return nil
	}
	asked, err := rest.NewRequestWithClient(base, "", rest.ClientContentConfig{}, client).AbsPath("/readyz").
		Param("verbose", "true").DoRaw(ctx)
	if err == nil {
		return nil
	}
	var lines []string
	for line := range strings.Lines(string(asked)) {
		if check, failed := strings.CutPrefix(strings.TrimSpace(line), "[-]"); failed {
			lines = append(lines, "its check fails: "+check)
		}
	}
	return lines
}
