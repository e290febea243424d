// Package componentstatus asks the parts of a control plane whether they are healthy, for the componentstatuses of the
// API. It knows them at the places where they are by default, beside the API server
// (https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/component-status-v1/).
package componentstatus

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// timeout is the timeout of a component's health check.
	timeout = 20 * time.Second
	// maxBody is how much of an answer is shown, in bytes.
	maxBody = 10 << 10
)

// Component is a part of the control plane.
type Component struct {
	Name string
	// URL answers when it is healthy; the certificate is not verified.
	URL string
	// Probe asks it in another way, if there is no URL.
	Probe func(ctx context.Context) error
}

// Defaults are the components in upstream's order; store asks the store.
func Defaults(store func(ctx context.Context) error) []Component {
	return []Component{
		{Name: "controller-manager", URL: "https://127.0.0.1:10257/healthz"},
		{Name: "scheduler", URL: "https://127.0.0.1:10259/healthz"},
		{Name: "etcd-0", Probe: store},
	}
}

// Read asks the component of that name, or all where it is "", at the same time. The order is that of the list; what is
// unknown is left out.
func Read(ctx context.Context, list []Component, name string) []*corev1.ComponentStatus {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out []*corev1.ComponentStatus
	var asking sync.WaitGroup
	for _, c := range list {
		if name != "" && name != c.Name {
			continue
		}
		status := &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}
		out = append(out, status)
		asking.Go(func() { status.Conditions = []corev1.ComponentCondition{c.condition(ctx)} })
	}
	asking.Wait()
	return out
}

func (c *Component) condition(ctx context.Context) corev1.ComponentCondition {
	out := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}
	if c.URL != "" {
		out.Status, out.Message = ask(ctx, c.URL)
	} else if err := c.Probe(ctx); err != nil {
		out.Status, out.Message, out.Error = corev1.ConditionFalse, "", err.Error()
	}
	return out
}

// ask tells what an address answers. What a component that is not healthy says may be secret, and is not shown.
func ask(ctx context.Context, url string) (status corev1.ConditionStatus, message string) {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // nothing is sent to it, and its word is only shown
		DisableKeepAlives: true,
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return corev1.ConditionUnknown, err.Error()
	}
	r.Header.Set("Accept", "*/*")
	r.Header.Set("User-Agent", "kube-probe")
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return corev1.ConditionFalse, err.Error()
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusBadRequest {
		return corev1.ConditionFalse, fmt.Sprintf("HTTP probe failed with statuscode: %d", answer.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err != nil {
		return corev1.ConditionUnknown, err.Error()
	}
	return corev1.ConditionTrue, string(body)
}
