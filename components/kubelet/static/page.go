package static

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// pageTimeout is how long a page may take to answer.
const pageTimeout = 10 * time.Second

// followURL reads the page at s.URL again and again until ctx ends. Pods stay as they are while it can't be read.
func (s *Sources) followURL(ctx context.Context, replace func([]*v1.Pod)) {
	client := &http.Client{Timeout: pageTimeout}
	ticker := s.Clock.NewTicker(s.URLEvery)
	defer ticker.Stop()
	var last []byte
	for {
		if data, err := s.fetch(ctx, client); err != nil {
			if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Failed to read pods from URL")
			}
		} else if last == nil || !bytes.Equal(last, data) {
			if list, err := s.parser.Page(data, s.URL); err != nil {
				klog.FromContext(ctx).Error(err, "Failed to read pods from URL")
			} else {
				last = data
				replace(list)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

func (s *Sources) fetch(ctx context.Context, client *http.Client) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range s.Header {
		for _, value := range values {
			request.Header.Add(name, value)
		}
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxManifest))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%v: %v", s.URL, response.Status)
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("zero-length data received from %v", s.URL)
	}
	return data, nil
}
