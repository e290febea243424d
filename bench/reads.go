package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// reads measures gets, and lists of many pods in each form, against a range of the same keys from etcd.
func reads(ctx context.Context, o Options, r *rig, clients []*kubernetes.Clientset) ([]Measure, error) {
	gets, cost, err := r.servers[0].cost(ctx, o, func(ctx context.Context, worker int, call int64) error {
		_, err := clients[worker].CoreV1().Pods(namespace).Get(ctx, fmt.Sprintf("list-%06d", call%int64(o.Pods)),
			metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	whole, err := rawList(ctx, r.etcdURL)
	if err != nil {
		return nil, err
	}
	out := []Measure{
		{Name: fmt.Sprintf("get, %d clients", o.Clients), Value: gets, Unit: frequency},
		{Name: "server CPU per get", Value: cost, Unit: "ms", Limit: r.raw.cpu, Against: rawCPU, Aim: "≤ 0.08 ms, 0.8x"},
	}
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	forms := []struct{ name, accept, encoding, aim string }{
		{"JSON", "application/json", "", ""}, {"JSON, gzip", "application/json", "gzip", "≤ 17 ms"},
		{"protobuf", protobuf, "", ""}, {"protobuf, gzip", protobuf, "gzip", "≤ 12 ms"},
		{"Table", table, "", ""}, {"Table, gzip", table, "gzip", "≤ 17 ms"},
	}
	for _, form := range forms {
		d, err := listTime(ctx, r, form.accept, form.encoding)
		if err != nil {
			return nil, fmt.Errorf("list as %s: %w", form.name, err)
		}
		out = append(out, Measure{Name: fmt.Sprintf("list of %d pods, %s", o.Pods, form.name), Value: milliseconds(d),
			Unit:  "ms",
			Limit: milliseconds(whole), Against: "raw etcd range, ms", Aim: form.aim})
	}
	return out, nil
}

func rawList(ctx context.Context, url string) (time.Duration, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, MaxCallRecvMsgSize: 1 << 30})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	return fastest(5, func() error {
		_, err := client.Get(ctx, "/registry/pods/"+namespace+"/", clientv3.WithPrefix())
		return err
	})
}

// listTime measures one list, read to its end but not decoded: the server's work, not the client's.
func listTime(ctx context.Context, r *rig, accept, encoding string) (time.Duration, error) {
	client, err := r.probe()
	if err != nil {
		return 0, err
	}
	client.Transport.(*http.Transport).DisableCompression = true
	return fastest(5, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.servers[0].url+"/api/v1/namespaces/"+namespace+
			"/pods", nil)
		if err != nil {
			return err
		}
		request.Header.Set("Accept", accept)
		if encoding != "" {
			request.Header.Set("Accept-Encoding", encoding)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", response.Status)
		}
		_, err = io.Copy(io.Discard, response.Body)
		return err
	})
}
