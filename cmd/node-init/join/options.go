// Package join has a node join a cluster by a bootstrap token, as `kubeadm join` does: it finds the cluster's
// authority, gets the node's configuration, and tokens for its services.
package join

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"quintet.dev/quintet/internal/join"
)

// Usage says how a node joins.
const Usage = `  node-init join HOST:PORT --token TOKEN --discovery-token-ca-cert-hash sha256:HASH [-- kubelet flags...]
                                        join the cluster of the API server at HOST:PORT, and boot the node

A node that joins is called, labelled and tainted by the environment of its container: NODE_NAME (by default the host
name), NODE_LABELS (zone=a,disk=ssd) and NODE_TAINTS (only=infra:NoSchedule). After a restart of the container it goes
on with what it has.
`

// Options of a node that joins.
type Options struct {
	Server      string // host:port
	Token       join.Token
	Pins        []string // of the cluster's authority; none leaves it to the token alone
	Name        string
	Labels      string // as --node-labels has them
	Taints      string // as --register-with-taints has them
	KubeletArgs []string
	// Timeout bounds the wait for the API server and for the signature of the token.
	Timeout time.Duration
}

// Parse reads arguments and environment. hostname is the name of a node that is not told another.
func Parse(args []string, env func(string) string, hostname string) (Options, error) {
	var o Options
	fs := pflag.NewFlagSet("join", pflag.ContinueOnError)
	fs.Usage = func() {}
	token := fs.String("token", "", "bootstrap token")
	pins := fs.StringSlice("discovery-token-ca-cert-hash", nil, "hash of the authority's public key")
	unpinned := fs.Bool("discovery-token-unsafe-skip-ca-verification", false, "trust the token alone")
	fs.DurationVar(&o.Timeout, "timeout", time.Minute, "how long to wait for the API server")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	rest := fs.Args()
	if fs.ArgsLenAtDash() >= 0 {
		rest, o.KubeletArgs = fs.Args()[:fs.ArgsLenAtDash()], fs.Args()[fs.ArgsLenAtDash():]
	}
	if len(rest) != 1 {
		return o, fmt.Errorf("want one address of the API server, HOST:PORT, not %q", rest)
	}
	o.Server = strings.TrimPrefix(rest[0], "https://")
	if _, _, err := net.SplitHostPort(o.Server); err != nil {
		return o, fmt.Errorf("address of the API server %q: want HOST:PORT", rest[0])
	}
	var err error
	if o.Token, err = join.Parse(*token); err != nil {
		return o, fmt.Errorf("--token: %w", err)
	}
	if len(*pins) == 0 && !*unpinned {
		return o, errors.New("give --discovery-token-ca-cert-hash, which `quintet join-command` prints, or " +
			"--discovery-token-unsafe-skip-ca-verification: then all who have the token can pass for the cluster")
	}
	for _, text := range *pins {
		pin, err := join.CheckPin(text)
		if err != nil {
			return o, fmt.Errorf("--discovery-token-ca-cert-hash: %w", err)
		}
		o.Pins = append(o.Pins, pin)
	}
	o.Name, o.Labels, o.Taints = strings.ToLower(env("NODE_NAME")), env("NODE_LABELS"), env("NODE_TAINTS")
	if o.Name == "" {
		o.Name = strings.ToLower(hostname)
	}
	if wrong := validation.IsDNS1123Subdomain(o.Name); len(wrong) > 0 {
		return o, fmt.Errorf("NODE_NAME %q: %s", o.Name, strings.Join(wrong, "; "))
	}
	return o, nil
}

// args are the kubelet's, with those of the cluster's configuration first.
func (o Options) args(config join.NodeConfig, ips []string) []string {
	args := append([]string{}, config.KubeletArgs...)
	args = append(args, "--hostname-override="+o.Name, "--node-ip="+strings.Join(ips, ","))
	if o.Labels != "" {
		args = append(args, "--node-labels="+o.Labels)
	}
	if o.Taints != "" {
		args = append(args, "--register-with-taints="+o.Taints)
	}
	return append(args, o.KubeletArgs...)
}
