package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

// cost keeps up a load and returns how often per second the calls succeeded, and the server's processor time for each,
// in milliseconds.
func (s *apiServer) cost(ctx context.Context, o Options, op func(ctx context.Context, worker int,
	call int64) error) (perSecond, each float64, err error) {
	before, err := cpu(s.pid())
	if err != nil {
		return 0, 0, err
	}
	perSecond, err = rate(ctx, o.Clients, o.Duration, op)
	if err != nil {
		return 0, 0, err
	}
	after, err := cpu(s.pid())
	return perSecond, milliseconds(after-before) / (perSecond * o.Duration.Seconds()), err
}

// writes measures each kind of write to pods, and how much of the processor the server takes for it.
func writes(ctx context.Context, o Options, r *rig, clients []*kubernetes.Clientset) ([]Measure, error) {
	var out []Measure
	for _, w := range []struct {
		name, rateAim, costAim string
		op                     func(ctx context.Context, client *kubernetes.Clientset, worker int, call int64) error
	}{
		{"create", "≥ 3000/s", "≤ 0.25 ms, 2.5x", createPod},
		{"update", "", "≤ 0.3 ms, 3x", (&updates{pods: make([]*corev1.Pod, o.Clients)}).update},
		{"status patch", "", "", o.patchStatus},
		{"apply", "", "≤ 0.3 ms, 3x", apply},
	} {
		perSecond, cost, err := r.servers[0].cost(ctx, o, func(ctx context.Context, worker int, call int64) error {
			return w.op(ctx, clients[worker], worker, call)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		out = append(out,
			Measure{Name: fmt.Sprintf("%s, %d clients", w.name, o.Clients), Value: perSecond, Unit: frequency,
				Limit:   r.raw.perSecond,
				Against: rawRate, Aim: w.rateAim},
			Measure{Name: "server CPU per " + w.name, Value: cost, Unit: "ms", Limit: r.raw.cpu, Against: rawCPU,
				Aim: w.costAim})
	}
	return out, nil
}

func createPod(ctx context.Context, client *kubernetes.Clientset, _ int, call int64) error {
	_, err := client.CoreV1().Pods(namespace).Create(ctx, pod(fmt.Sprintf("load-%07d", call)), metav1.CreateOptions{})
	return err
}

// updates change a pod over and over, each worker one of its own.
type updates struct{ pods []*corev1.Pod }

func (u *updates) update(ctx context.Context, client *kubernetes.Clientset, worker int, call int64) (err error) {
	pods := client.CoreV1().Pods(namespace)
	if u.pods[worker] == nil {
		if u.pods[worker], err = pods.Get(ctx, fmt.Sprintf("list-%06d", worker), metav1.GetOptions{}); err != nil {
			return err
		}
	}
	metav1.SetMetaDataAnnotation(&u.pods[worker].ObjectMeta, "round", strconv.FormatInt(call, 10))
	u.pods[worker], err = pods.Update(ctx, u.pods[worker], metav1.UpdateOptions{})
	return err
}

func (o Options) patchStatus(ctx context.Context, client *kubernetes.Clientset, _ int, call int64) error {
	_, err := client.CoreV1().Pods(namespace).Patch(ctx, fmt.Sprintf("list-%06d", call%int64(o.Pods)),
		types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"status":{"message":"%d"}}`, call), metav1.PatchOptions{}, "status")
	return err
}

func apply(ctx context.Context, client *kubernetes.Clientset, worker int, call int64) error {
	wanted := applycorev1.ConfigMap(fmt.Sprintf("applied-%d", worker), namespace).
		WithLabels(map[string]string{"app": "bench"}).WithData(map[string]string{"round": strconv.FormatInt(call, 10),
		"mode": "bench"})
	_, err := client.CoreV1().ConfigMaps(namespace).Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "bench"})
	return err
}

// raw is what etcd itself does: one create transaction of a value as large as a pod.
type raw struct {
	perSecond float64
	cpu       float64 // of etcd and its client for each, in milliseconds
}

// What measures are held against. The aims in multiples of the CPU were made on a machine where a transaction took 0.1
// ms.
const (
	rawRate = "raw etcd transactions/s"
	rawCPU  = "CPU of a raw etcd transaction, ms"
)

func (r *rig) measureRaw(ctx context.Context, o Options) error {
	stored, err := pod("raw").Marshal()
	if err != nil {
		return err
	}
	value := string(append(stored, make([]byte, 700)...)) // defaults and managed fields make a stored pod that much larger
	clients := make([]*clientv3.Client, o.Clients)
	for i := range clients {
		if clients[i], err = clientv3.New(clientv3.Config{Endpoints: []string{r.etcdURL}}); err != nil {
			return err
		}
		defer clients[i].Close()
	}
	before, err := cpu(r.etcd.pid(), os.Getpid())
	if err != nil {
		return err
	}
	r.raw.perSecond, err = rate(ctx, o.Clients, o.Duration, func(ctx context.Context, worker int, call int64) error {
		key := fmt.Sprintf("/raw/%07d", call)
		_, err := clients[worker].Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key,
			value)).Commit()
		return err
	})
	if err != nil {
		return err
	}
	after, err := cpu(r.etcd.pid(), os.Getpid())
	r.raw.cpu = milliseconds(after-before) / (r.raw.perSecond * o.Duration.Seconds())
	return err
}
