package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	. "github.com/onsi/gomega"
	gtypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/util/exec"

	"quintet.dev/quintet/conformance/suite"
)

// Result is what came of an attempt from inside a pod: its output, or why it failed.
type Result struct {
	OK   bool
	Text string
}

// Attempt is something that a pod tries. Its error means that nothing was tried, which tells nothing of the network.
type Attempt func(ctx context.Context) (Result, error)

// attemptTimeout bounds one attempt: blocked traffic takes that long, allowed traffic much less.
const attemptTimeout = "--timeout=1s"

// failedAttempt is the exit code of the test image where the network failed, and not the command line or the container.
const failedAttempt = 1

// Try returns the attempt to run a command of the test image in a pod.
func Try(t *suite.T, pod string, command ...string) Attempt {
	return func(ctx context.Context) (Result, error) {
		out, complaint, err := t.Exec(ctx, pod, "", append([]string{"testimage"}, command...)...)
		var ended exec.CodeExitError
		switch {
		case err == nil:
			return Result{OK: true, Text: strings.TrimSpace(out)}, nil
		case errors.As(err, &ended) && ended.Code == failedAttempt:
			return Result{Text: strings.TrimSpace(complaint)}, nil
		}
		return Result{}, fmt.Errorf("%w: %s", err, complaint)
	}
}

// Get is an HTTP request for the name of the pod that answers.
func Get(t *suite.T, pod, host string, port int32) Attempt { return GetPath(t, pod, host, port, "") }

// Remote is an HTTP request for the address that the answering pod sees.
func Remote(t *suite.T, pod, host string, port int32) Attempt {
	return GetPath(t, pod, host, port, "remote")
}

// Local is an HTTP request for the address that the answering pod was reached at.
func Local(t *suite.T, pod, host string, port int32) Attempt {
	return GetPath(t, pod, host, port, "local")
}

// GetPath is an HTTP request for a path, without its leading slash. A status of 400 or more is a failure that names it.
func GetPath(t *suite.T, pod, host string, port int32, path string) Attempt {
	return Try(t, pod, "get", "http://"+HostPort(host, port)+"/"+path, attemptTimeout)
}

// Datagram sends one datagram: the answer is the name of the pod that answers and the address that it sees.
func Datagram(t *suite.T, pod, host string, port int32, options ...string) Attempt {
	return Try(t, pod, append([]string{"datagram", HostPort(host, port), attemptTimeout}, options...)...)
}

// HostPort joins an address of any family and a port.
func HostPort(host string, port int32) string { return net.JoinHostPort(host, fmt.Sprint(port)) }

// Succeeds matches a result by its text.
func Succeeds(text gtypes.GomegaMatcher) gtypes.GomegaMatcher {
	return And(HaveField("OK", BeTrue()), HaveField("Text", text))
}

// Fails matches a result by why it failed.
func Fails(reason gtypes.GomegaMatcher) gtypes.GomegaMatcher {
	return And(HaveField("OK", BeFalse()), HaveField("Text", reason))
}

// Answers waits until an attempt succeeds with a text.
func Answers(ctx context.Context, t *suite.T, what string, attempt Attempt, text gtypes.GomegaMatcher) Result {
	return suite.WaitFor(ctx, t, what, attempt, Succeeds(text))
}

// Blocked waits until an attempt fails, and then for it to fail some more times. The caller has seen it succeed, or
// sees another one succeed at the same time, so that the failure has a reason.
func Blocked(ctx context.Context, t *suite.T, what string, attempt Attempt) {
	suite.WaitFor(ctx, t, what, attempt, HaveField("OK", BeFalse()))
	Repeat(ctx, t, what, 2, attempt, HaveField("OK", BeFalse()))
}

// Repeat makes an attempt several times, all of which have to match.
func Repeat(ctx context.Context, t *suite.T, what string, times int, attempt Attempt, match gtypes.GomegaMatcher) {
	for range times {
		result, err := attempt(ctx)
		t.Must(err, "%s", what)
		t.Expect(result).To(match, what)
	}
}

// Names makes an attempt several times and returns the different answers.
func Names(times int, attempt Attempt) func(ctx context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		seen := map[string]bool{}
		var names []string
		for range times {
			result, err := attempt(ctx)
			if err != nil {
				return nil, err
			}
			if !seen[result.Text] {
				seen[result.Text] = true
				names = append(names, result.Text)
			}
		}
		return names, nil
	}
}

// From matches an address with any port.
func From(ip string) gtypes.GomegaMatcher {
	return HavePrefix(HostPort(ip, 0)[:len(HostPort(ip, 0))-1])
}

// FromAny matches one of the addresses of a node with any port.
func FromAny(node corev1.Node) gtypes.GomegaMatcher {
	var each []gtypes.GomegaMatcher
	for _, address := range node.Status.Addresses {
		each = append(each, From(address.Address))
	}
	return Or(each...)
}

// IsIPv6 reports the family of an address.
func IsIPv6(ip string) bool {
	address, err := netip.ParseAddr(ip)
	return err == nil && address.Is6()
}

// SingleAddress is the CIDR of one address.
func SingleAddress(ip string) string {
	if IsIPv6(ip) {
		return ip + "/128"
	}
	return ip + "/32"
}

func addressType(ip string) discoveryv1.AddressType {
	if IsIPv6(ip) {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// labelPatch is the merge patch that sets a label, or removes it.
func labelPatch(key, value string) []byte {
	var set any
	if value != "" {
		set = value
	}
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{key: set}}})
	return patch
}
