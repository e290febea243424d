package metricsserver

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/metricsserver/usage"
)

const (
	usualPath = "/metrics/resource"
	// pathAnnotation of a node overrides the path.
	pathAnnotation = "metrics.k8s.io/resource-metrics-path"
	// spread is how much time there is between two scrapes on average, and mostSpread between the first and the last:
	// answers of all kubelets at once would be a burst.
	spread, mostSpread = 8 * time.Millisecond, 4 * time.Second
	// longestAnswer bounds what is read of a kubelet, in bytes.
	longestAnswer = 64 << 20
)

// scraper asks kubelets.
type scraper struct {
	client  *http.Client
	kubelet Kubelet
	clock   clock.Clock
	metrics *metrics
}

// all scrapes nodes at once. Those that fail are missing in the batch.
func (s *scraper) all(ctx context.Context, nodes []*v1.Node) usage.Batch {
	together := usage.NewBatch()
	var mu sync.Mutex
	var group sync.WaitGroup
	latest := min(time.Duration(len(nodes))*spread, mostSpread)
	for _, node := range nodes {
		group.Go(func() {
			select {
			case <-ctx.Done():
				return
			case <-s.clock.After(rand.N(latest)):
			}
			b, err := s.one(ctx, node)
			if err != nil {
				klog.FromContext(ctx).Error(err, "Failed to scrape node", "node", node.Name)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			together.Merge(b)
		})
	}
	group.Wait()
	return together
}

// one scrapes a node.
func (s *scraper) one(ctx context.Context, node *v1.Node) (b usage.Batch, err error) {
	began := s.clock.Now()
	defer func() { s.metrics.scraped(node.Name, began, s.clock.Since(began), err) }()
	target, err := s.kubelet.target(node)
	if err != nil {
		return b, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.kubelet.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return b, err
	}
	request.Header.Set("Accept", "text/plain")
	response, err := s.client.Do(request)
	if err != nil {
		return b, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return b, fmt.Errorf("GET %s: status %q", target, response.Status)
	}
	return usage.Decode(io.LimitReader(response.Body, longestAnswer), node.Name, began)
}

// target is where the kubelet of a node serves its metrics.
func (k *Kubelet) target(node *v1.Node) (*url.URL, error) {
	host := ""
	for _, kind := range k.AddressTypes {
		i := slices.IndexFunc(node.Status.Addresses,
			func(a v1.NodeAddress) bool { return string(a.Type) == kind && a.Address != "" })
		if i >= 0 {
			host = node.Status.Addresses[i].Address
			break
		}
	}
	if host == "" {
		return nil, fmt.Errorf("node %q has no address of types %v", node.Name, k.AddressTypes)
	}
	port := k.Port
	if told := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port); k.UseNodeStatusPort && told != 0 {
		port = told
	}
	path := usualPath
	if own := node.Annotations[pathAnnotation]; own != "" {
		path = own
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(port)), Path: path}, nil
}
