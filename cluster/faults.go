package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"

	"quintet.dev/quintet/faults"
)

// WithFaults disturbs requests to the API server by a plan, which begins when the cluster is ready: those of
// components, of pods and of clients, by the names of their users. An empty plan disturbs nothing, and lets SetFaults
// give another. The same seed disturbs the same requests, whatever their timing. It takes one API server, as each would
// count for itself.
func WithFaults(plan faults.Plan) Option {
	return func(c *config) error {
		if err := plan.Validate(); err != nil {
			return fmt.Errorf("faults: %w", err)
		}
		c.faults = &plan
		return nil
	}
}

func (c *config) checkFaults() error {
	_, image := c.images[APIServer]
	switch {
	case c.faults == nil:
		return nil
	case c.apiservers > 1:
		return fmt.Errorf("faults: %d API servers would each count for itself; use one", c.apiservers)
	case image:
		return errors.New("faults: the image of another kube-apiserver can't be disturbed from inside; " +
			"use faults.NewProxy before it")
	}
	return nil
}

// beginFaults comes last, so that a start is never disturbed.
func (s *start) beginFaults(ctx context.Context) error {
	return s.cluster.SetFaults(ctx, *s.cluster.config.faults)
}

// SetFaults replaces the plan of a cluster that was started WithFaults; all counting begins with it, and the log is
// empty. An empty plan ends all faults. A restarted API server has none.
func (c *Cluster) SetFaults(ctx context.Context, plan faults.Plan) error {
	text, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	_, err = c.askFilter(ctx, http.MethodPut, text)
	return err
}

// InjectedFaults is what the plan did to requests since it was set, ordered by user, object, verb and occurrence.
func (c *Cluster) InjectedFaults(ctx context.Context) ([]faults.Injected, error) {
	text, err := c.askFilter(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	var log []faults.Injected
	return log, json.Unmarshal(text, &log)
}

func (c *Cluster) askFilter(ctx context.Context, method string, body []byte) ([]byte, error) {
	client, err := rest.HTTPClientFor(c.rest)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.rest.Host+faults.Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("cluster %s was not started with WithFaults", c.config.name)
	case answer.StatusCode >= http.StatusBadRequest:
		return nil, fmt.Errorf("faults: %s: %s", answer.Status, bytes.TrimSpace(text))
	}
	return text, nil
}
