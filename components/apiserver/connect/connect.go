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
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/internal/follow"
)

// Config of a Connector.
type Config struct {
	Objects objects.Reader
	// ClientCertificate and ClientKey are PEM files that prove to kubelets who we are; both may be empty.
	ClientCertificate, ClientKey string
	// Authority is a PEM file with those who sign kubelets' serving certificates; empty doesn't verify them, as upstream.
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
	// Timeout bounds connecting; 0 means five seconds.
	Timeout time.Duration
	// Dial connects to nodes, pods and services; nil does so straight.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Connector serves connecting subresources. It is safe for concurrent use.
type Connector struct {
	objects      objects.Reader
	logs         func(LogUse)
	addressTypes []corev1.NodeAddressType
	port         int
	kubelet      *http.Transport
	// trusting reaches kubelets without judging their certificates.
	trusting *http.Transport
	// plain reaches pods and services, whose certificates nobody can judge.
	plain        *http.Transport
	files        *follow.Files // of the client certificate; nil if there is none
	maxBytes     int64
	plainForward bool // of ports
	translateAll bool
}

// New makes a Connector. It fails when a file can't be read, and names it.
func New(c Config) (*Connector, error) {
	var files *follow.Files
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}).DialContext
	}
	kubelets := connrotation.NewDialer(c.Dial)
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Authority == ""}
	if c.Authority != "" {
		pem, err := os.ReadFile(c.Authority)
		if err != nil {
			return nil, fmt.Errorf("--kubelet-certificate-authority: %w", err)
		}
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--kubelet-certificate-authority: %s holds no certificate", c.Authority)
		}
	}
	if c.ClientCertificate != "" || c.ClientKey != "" {
		pair, err := newClientPair(c.ClientCertificate, c.ClientKey, kubelets.CloseAll)
		if err != nil {
			return nil, fmt.Errorf("--kubelet-client-certificate, --kubelet-client-key: %w", err)
		}
		tlsConfig.GetClientCertificate = pair.get
		files = pair.files
	}
	if c.Logs == nil {
		c.Logs = func(LogUse) {}
	}
	out := &Connector{
		objects: c.Objects, port: cmp.Or(c.Port, 10250), files: files, logs: c.Logs, maxBytes: c.MaxBytesPerSecond,
		plainForward: c.PlainPortForward, translateAll: c.TranslateAll,
		kubelet: &http.Transport{DialContext: kubelets.DialContext, TLSClientConfig: tlsConfig, TLSHandshakeTimeout: c.Timeout, IdleConnTimeout: 90 * time.Second},
		plain: &http.Transport{DialContext: c.Dial, TLSHandshakeTimeout: c.Timeout, IdleConnTimeout: 90 * time.Second,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}},
	}
	out.trusting = out.kubelet.Clone()
	out.trusting.TLSClientConfig.InsecureSkipVerify = true
	for _, t := range c.AddressTypes {
		out.addressTypes = append(out.addressTypes, corev1.NodeAddressType(t))
	}
	return out, nil
}

// Run follows the files of the client certificate until ctx ends. With another one, connections to kubelets are made anew.
func (c *Connector) Run(ctx context.Context, clk clock.WithTicker) error {
	if c.files == nil {
		return nil
	}
	return c.files.Run(ctx, clk)
}

// Close drops idle connections.
func (c *Connector) Close() {
	c.kubelet.CloseIdleConnections()
	c.trusting.CloseIdleConnections()
	c.plain.CloseIdleConnections()
}

// Handler is what the API calls for a connecting subresource.
type Handler = func(w http.ResponseWriter, r *http.Request, namespace, name string) error

// Handlers returns all of them, by "resource/subresource".
func (c *Connector) Handlers() map[string]Handler {
	return map[string]Handler{
		"pods/log":         c.log,
		"pods/exec":        c.exec,
		"pods/attach":      c.attach,
		"pods/portforward": c.portForward,
		"pods/proxy":       c.podProxy,
		"services/proxy":   c.serviceProxy,
		"nodes/proxy":      c.nodeProxy,
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
