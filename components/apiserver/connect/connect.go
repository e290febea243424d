// Package connect serves the subresources that take over the connection: logs, exec, attach and port-forward of pods,
// which the kubelet answers, and the proxies to nodes, pods and services.
package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/egress"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/internal/follow"
)

// Config of a Connector.
type Config struct {
	Objects objects.Reader
	// ClientCertificate and ClientKey are PEM files that authenticate this server to kubelets; both may be empty.
	ClientCertificate, ClientKey string
	// Authority is a PEM file of the authorities that sign kubelets' serving certificates; empty doesn't verify them,
	// as upstream.
	Authority string
	// AddressTypes tell which of a node's addresses is dialed, in order of preference.
	AddressTypes []string
	// MaxBytesPerSecond bounds each connection that is taken over; 0 means no bound.
	MaxBytesPerSecond int64
	// PlainPortForward leaves the protocol of port-forward to kubelets, also that of WebSockets.
	PlainPortForward bool
	// TranslateAll speaks the protocols of WebSocket clients here also for nodes that declare that their kubelet does.
	TranslateAll bool
	// Logs is told how each read of a log goes; nil counts none.
	Logs func(LogUse)
	// Port is that of kubelets whose nodes don't tell theirs; 0 means 10250.
	Port int
	// Timeout bounds connecting to kubelets; 0 means five seconds.
	Timeout time.Duration
	// Dial connects to nodes, pods and services; nil does so straight.
	Dial egress.Dial
}

// Connector serves connecting subresources. It is safe for concurrent use.
type Connector struct {
	objects      objects.Reader
	logs         func(LogUse)
	addressTypes []corev1.NodeAddressType
	port         int
	judging      atomic.Pointer[http.Transport] // reaches kubelets whose certificates are in order
	// trusting reaches kubelets without judging their certificates.
	trusting *http.Transport
	// kubelets makes and knows the connections of both.
	kubelets *connrotation.Dialer
	// plain reaches pods and services, whose certificates can't be verified.
	plain        *http.Transport
	files        []*follow.Files // of the client certificate and of the authorities for kubelets
	maxBytes     int64
	plainForward bool // of ports
	translateAll bool
}

// New makes a Connector. It fails when a file can't be read, and names it.
func New(c Config) (*Connector, error) {
	plain := utilnet.SetTransportDefaults(&http.Transport{DialContext: c.Dial,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}})
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}).DialContext
	}
	kubelets := connrotation.NewDialer(c.Dial)
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	var files []*follow.Files
	if c.ClientCertificate != "" || c.ClientKey != "" {
		pair, err := newClientPair(c.ClientCertificate, c.ClientKey, kubelets.CloseAll)
		if err != nil {
			return nil, fmt.Errorf("--kubelet-client-certificate, --kubelet-client-key: %w", err)
		}
		tlsConfig.GetClientCertificate = pair.get
		files = append(files, pair.files)
	}
	if c.Logs == nil {
		c.Logs = func(LogUse) {}
	}
	out := &Connector{
		objects: c.Objects, port: cmp.Or(c.Port, 10250), files: files, logs: c.Logs, maxBytes: c.MaxBytesPerSecond,
		plainForward: c.PlainPortForward, translateAll: c.TranslateAll, plain: plain, kubelets: kubelets,
		trusting: &http.Transport{DialContext: kubelets.DialContext, TLSClientConfig: tlsConfig,
			TLSHandshakeTimeout: c.Timeout, IdleConnTimeout: 90 * time.Second},
	}
	out.judging.Store(out.trusting)
	if c.Authority != "" {
		authority, err := follow.New(out.judgeBy, c.Authority)
		if err != nil {
			return nil, fmt.Errorf("--kubelet-certificate-authority %s: %w", c.Authority, err)
		}
		out.files = append(out.files, authority)
	}
	for _, t := range c.AddressTypes {
		out.addressTypes = append(out.addressTypes, corev1.NodeAddressType(t))
	}
	return out, nil
}

// judgeBy makes further connections only to kubelets whose certificates were signed by the authorities of a file. Open
// connections stay.
func (c *Connector) judgeBy(_ context.Context, contents [][]byte) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(contents[0]) {
		return errors.New("no certificate found")
	}
	judging := c.trusting.Clone()
	judging.TLSClientConfig.InsecureSkipVerify, judging.TLSClientConfig.RootCAs = false, roots
	c.judging.Swap(judging).CloseIdleConnections()
	return nil
}

// kubelet reaches kubelets, as far as they can be trusted.
func (c *Connector) kubelet() *http.Transport { return c.judging.Load() }

// Run follows the files of certificates until ctx ends. When the client certificate changes, connections to kubelets
// are reopened.
func (c *Connector) Run(ctx context.Context, clk clock.WithTicker) error {
	var all errgroup.Group
	for _, f := range c.files {
		all.Go(func() error { return f.Run(ctx, clk) })
	}
	return all.Wait()
}

// Close ends the connections to kubelets, also those of transports that were replaced, and idle ones to pods and
// services.
func (c *Connector) Close() {
	c.kubelet().CloseIdleConnections()
	c.trusting.CloseIdleConnections()
	c.plain.CloseIdleConnections()
	c.kubelets.CloseAll()
}

// Handler is what the API calls for a connecting subresource; path is what is wanted of the one behind a proxy.
type Handler = func(w http.ResponseWriter, r *http.Request, namespace, name, path string) error

// Handlers returns all of them, by "resource/subresource".
func (c *Connector) Handlers() map[string]Handler {
	return map[string]Handler{
		"pods/log":         pathless(c.log),
		"pods/exec":        pathless(c.exec),
		"pods/attach":      pathless(c.attach),
		"pods/portforward": pathless(c.portForward),
		"pods/proxy":       c.podProxy,
		"services/proxy":   c.serviceProxy,
		"nodes/proxy":      c.nodeProxy,
	}
}

func pathless(h func(w http.ResponseWriter, r *http.Request, namespace, name string) error) Handler {
	return func(w http.ResponseWriter, r *http.Request, namespace, name, _ string) error {
		return h(w, r, namespace, name)
	}
}

var errNoAddress = errors.New("no preferred addresses found; known addresses: []")

// kubeletAt is the host:port of a node's kubelet.
func (c *Connector) kubeletAt(node *corev1.Node) (string, error) {
	port := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port == 0 {
		port = c.port
	}
	for _, wanted := range c.addressTypes {
		for _, a := range node.Status.Addresses {
			if a.Type == wanted && a.Address != "" {
				return net.JoinHostPort(a.Address, strconv.Itoa(port)), nil
			}
		}
	}
	if len(node.Status.Addresses) == 0 {
		return "", errNoAddress
	}
	return "", fmt.Errorf("no preferred addresses found; known addresses: %v", node.Status.Addresses)
}

// kubeletOf finds the kubelet that runs a pod.
func (c *Connector) kubeletOf(r *http.Request, pod *corev1.Pod) (string, error) {
	node, err := c.nodeOf(r, pod)
	if err != nil {
		return "", err
	}
	return c.kubeletAt(node)
}

func (c *Connector) nodeOf(r *http.Request, pod *corev1.Pod) (*corev1.Node, error) {
	node, err := objects.As[*corev1.Node](c.objects.Get(r.Context(), corev1.Resource("nodes"), "", pod.Spec.NodeName))
	if apierrors.IsNotFound(err) { // upstream calls it what the request is about
		err = apierrors.NewNotFound(corev1.Resource("pods"), pod.Spec.NodeName)
	}
	return node, err
}

func (c *Connector) pod(r *http.Request, namespace, name string) (*corev1.Pod, error) {
	return objects.As[*corev1.Pod](c.objects.Live(r.Context(), corev1.Resource("pods"), namespace, name))
}

func badRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}
