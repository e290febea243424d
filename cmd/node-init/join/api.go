package join

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	requestTimeout = 10 * time.Second
	maxAnswer      = 4 << 20 // bytes; objects are smaller
)

// client asks an API server for single objects. A whole clientset would make the first process of every node larger.
type client struct {
	server string // https://host:port
	http   *http.Client
}

// newClient trusts an authority, in PEM, and authenticates by a token; without an authority it trusts any server, and
// has no token.
func newClient(server string, authority []byte, token string) (*client, error) {
	config := &rest.Config{Host: "https://" + server, BearerToken: token, Timeout: requestTimeout,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority, Insecure: len(authority) == 0}}
	made, err := rest.HTTPClientFor(config)
	return &client{server: config.Host, http: made}, err
}

// get reads an object. An answer other than success is an API status error.
func (c *client) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, nil, into)
}

// create posts an object and reads the answer into it.
func (c *client) create(ctx context.Context, path string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPost, path, body, object)
}

func (c *client) do(ctx context.Context, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		var status metav1.Status
		if json.Unmarshal(answer, &status) != nil || status.Kind != "Status" {
			return fmt.Errorf("%s %s: %s", method, path, response.Status)
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s %s: the answer is no object: %w", method, path, err)
	}
	return nil
}
