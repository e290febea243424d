// Package extender asks processes beside the scheduler over HTTP: which nodes a pod fits on, how well, which pods to
// preempt for it, and to bind it (https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/, section
// Extender; the types on the wire are k8s.io/kube-scheduler/extender/v1).
package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// DefaultTimeout is how long an extender may take to answer.
const DefaultTimeout = 5 * time.Second

// Extender is a cycle.Extender. It is safe for concurrent use.
type Extender struct {
	config  configv1.Extender
	client  *http.Client
	managed map[v1.ResourceName]bool
	running func(change float64)
}

var _ cycle.Extender = (*Extender)(nil)

// NewAll makes extenders; it reads their certificates. running is told when one begins and ends to score nodes.
func NewAll(configs []configv1.Extender, running func(change float64)) ([]*Extender, error) {
	var all []*Extender
	for i := range configs {
		e, err := newExtender(&configs[i])
		if err != nil {
			return nil, fmt.Errorf("extenders[%d].tlsConfig: %w", i, err)
		}
		e.running = running
		all = append(all, e)
	}
	return all, nil
}

func newExtender(c *configv1.Extender) (*Extender, error) {
	e := &Extender{config: *c, managed: map[v1.ResourceName]bool{}}
	for _, managed := range c.ManagedResources {
		e.managed[v1.ResourceName(managed.Name)] = true
	}
	var config rest.Config
	if t := c.TLSConfig; t != nil {
		config.TLSClientConfig = rest.TLSClientConfig{Insecure: t.Insecure, ServerName: t.ServerName, CertFile: t.CertFile,
			KeyFile: t.KeyFile, CAFile: t.CAFile, CertData: t.CertData, KeyData: t.KeyData, CAData: t.CAData}
	}
	if c.EnableHTTPS && config.CAFile == "" && len(config.CAData) == 0 {
		config.Insecure = true // as upstream has it
	}
	tls, err := rest.TLSConfigFor(&config)
	if err != nil {
		return nil, err
	}
	timeout := c.HTTPTimeout.Duration
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	e.client = &http.Client{Timeout: timeout,
		Transport: utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tls})}
	return e, nil
}

// Name is its address.
func (e *Extender) Name() string { return e.config.URLPrefix }

// Ignorable tells that decisions go on without it when it fails.
func (e *Extender) Ignorable() bool { return e.config.Ignorable }

// Binds tells whether it binds pods.
func (e *Extender) Binds() bool { return e.config.BindVerb != "" }

// Preempts tells whether it wants to be asked before pods are preempted.
func (e *Extender) Preempts() bool { return e.config.PreemptVerb != "" }

// Interested tells whether a container of the pod uses a resource that it manages; one that manages none is interested
// in all pods.
func (e *Extender) Interested(p *snapshot.Pod) bool {
	if len(e.managed) == 0 {
		return true
	}
	for _, containers := range [][]v1.Container{p.Obj.Spec.InitContainers, p.Obj.Spec.Containers} {
		for i := range containers {
			for _, list := range []v1.ResourceList{containers[i].Resources.Requests, containers[i].Resources.Limits} {
				for name := range list {
					if e.managed[name] {
						return true
					}
				}
			}
		}
	}
	return false
}

// send posts args and decodes the answer.
func (e *Extender) send(ctx context.Context, verb string, args, answer any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	url := strings.TrimRight(e.config.URLPrefix, "/") + "/" + verb
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("failed %v with extender at URL %v, code %v", verb, url, response.StatusCode)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
