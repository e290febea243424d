package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	protobuf  = "application/vnd.kubernetes.protobuf"
	namespace = "bench"
)

// memoryServer measures the start of an API server that keeps everything in memory.
func memoryServer(ctx context.Context, o Options) ([]Measure, error) {
	r, err := newRig(ctx, o, false)
	if err != nil {
		return nil, err
	}
	defer r.close()
	rss, err := resident(r.server.cmd.Process.Pid)
	return []Measure{
		{Name: "start to /readyz", Value: milliseconds(r.ready), Unit: "ms", Aim: "≤ 50 ms"},
		{Name: "resident, idle", Value: rss, Unit: "MiB", Aim: "≤ 80 MiB"},
	}, err
}

// api measures reads and writes of an API server on etcd, against etcd itself.
func api(ctx context.Context, o Options) ([]Measure, error) {
	r, err := newRig(ctx, o, true)
	if err != nil {
		return nil, err
	}
	defer r.close()
	pid := r.server.cmd.Process.Pid
	idle, err := resident(pid)
	if err != nil {
		return nil, err
	}
	out := []Measure{
		{Name: "start to /readyz", Value: milliseconds(r.ready), Unit: "ms", Aim: "≤ 300 ms"},
		{Name: "resident, idle", Value: idle, Unit: "MiB", Aim: "≤ 80 MiB"},
	}
	clients := make([]*kubernetes.Clientset, o.Clients)
	for i := range clients {
		if clients[i], err = r.client(protobuf); err != nil {
			return nil, err
		}
	}
	if err := prepare(ctx, clients[0]); err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context, Options, *rig, []*kubernetes.Clientset) ([]Measure, error){writes, reads} {
		measures, err := part(ctx, o, r, clients)
		if err != nil {
			return nil, err
		}
		out = append(out, measures...)
	}
	full, err := resident(pid)
	return append(out, Measure{Name: fmt.Sprintf("resident, %d pods", o.Pods), Value: full, Unit: "MiB"}), err
}

func prepare(ctx context.Context, client *kubernetes.Clientset) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	return err
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench", "tier": "load"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "registry.invalid/bench:1", Args: []string{"serve", "--port=8080"},
			Env: []corev1.EnvVar{{Name: "MODE", Value: "bench"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}},
		}}},
	}
}

// writes measures creates and status patches of pods, and how much of the processor the server takes for each.
func writes(ctx context.Context, o Options, r *rig, clients []*kubernetes.Clientset) ([]Measure, error) {
	pid := r.server.cmd.Process.Pid
	before, err := cpu(pid)
	if err != nil {
		return nil, err
	}
	creates, err := rate(ctx, o.Clients, o.Duration, func(ctx context.Context, worker int, call int64) error {
		_, err := clients[worker].CoreV1().Pods(namespace).Create(ctx, pod(fmt.Sprintf("load-%07d", call)), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	after, err := cpu(pid)
	if err != nil {
		return nil, err
	}
	perCreate := milliseconds(after-before) / (creates * o.Duration.Seconds())
	patches, err := rate(ctx, o.Clients, o.Duration, func(ctx context.Context, worker int, call int64) error {
		_, err := clients[worker].CoreV1().Pods(namespace).Patch(ctx, fmt.Sprintf("load-%07d", 1+call%1000), types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"status":{"message":"%d"}}`, call), metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	transactions, err := rawWrites(ctx, o, r.etcdURL)
	if err != nil {
		return nil, fmt.Errorf("raw etcd: %w", err)
	}
	const against = "raw etcd transactions/s"
	return []Measure{
		{Name: fmt.Sprintf("pod creates, %d clients", o.Clients), Value: creates, Unit: "1/s", Limit: transactions, Against: against, Aim: "≥ 3000/s"},
		{Name: "server CPU per create", Value: perCreate, Unit: "ms"},
		{Name: fmt.Sprintf("status patches, %d clients", o.Clients), Value: patches, Unit: "1/s", Limit: transactions, Against: against},
	}, nil
}

// rawWrites measures what the API server does at most: one create transaction of a value as large as a pod.
func rawWrites(ctx context.Context, o Options, url string) (float64, error) {
	stored, err := pod("raw").Marshal()
	if err != nil {
		return 0, err
	}
	value := string(append(stored, make([]byte, 700)...)) // defaults and managed fields make a stored pod that much larger
	clients := make([]*clientv3.Client, o.Clients)
	for i := range clients {
		if clients[i], err = clientv3.New(clientv3.Config{Endpoints: []string{url}}); err != nil {
			return 0, err
		}
		defer clients[i].Close()
	}
	return rate(ctx, o.Clients, o.Duration, func(ctx context.Context, worker int, call int64) error {
		key := fmt.Sprintf("/raw/%07d", call)
		_, err := clients[worker].Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, value)).Commit()
		return err
	})
}

// reads measures gets, and lists of many pods in each form, against a range of the same keys from etcd.
func reads(ctx context.Context, o Options, r *rig, clients []*kubernetes.Clientset) ([]Measure, error) {
	pods := clients[0].CoreV1().Pods(namespace)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return nil, err
	}
	err := each(ctx, o.Clients, o.Pods, func(ctx context.Context, worker, i int) error {
		_, err := clients[worker].CoreV1().Pods(namespace).Create(ctx, pod(fmt.Sprintf("list-%06d", i)), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	gets, err := rate(ctx, o.Clients, o.Duration, func(ctx context.Context, worker int, call int64) error {
		_, err := clients[worker].CoreV1().Pods(namespace).Get(ctx, fmt.Sprintf("list-%06d", call%int64(o.Pods)), metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	raw, err := rawList(ctx, r.etcdURL)
	if err != nil {
		return nil, err
	}
	out := []Measure{{Name: fmt.Sprintf("gets, %d clients", o.Clients), Value: gets, Unit: "1/s"}}
	forms := []struct{ name, accept, encoding string }{
		{"JSON", "application/json", ""}, {"JSON, gzip", "application/json", "gzip"},
		{"protobuf", protobuf, ""}, {"protobuf, gzip", protobuf, "gzip"},
		{"Table", "application/json;as=Table;v=v1;g=meta.k8s.io", ""}, {"Table, gzip", "application/json;as=Table;v=v1;g=meta.k8s.io", "gzip"},
	}
	for _, form := range forms {
		d, err := listTime(ctx, r, form.accept, form.encoding)
		if err != nil {
			return nil, fmt.Errorf("list as %s: %w", form.name, err)
		}
		out = append(out, Measure{Name: fmt.Sprintf("list of %d pods, %s", o.Pods, form.name), Value: milliseconds(d), Unit: "ms",
			Limit: milliseconds(raw), Against: "raw etcd range, ms"})
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
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/api/v1/namespaces/"+namespace+"/pods", nil)
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
