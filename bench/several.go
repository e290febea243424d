package bench

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// several measures what three API servers on one etcd do together, whose clients are spread over them, against one.
func several(ctx context.Context, o Options) ([]Measure, error) {
	r, err := startRig(ctx, o, true)
	if err != nil {
		return nil, err
	}
	defer r.close()
	var one, all float64
	var oneGet, allGet float64
	for n := 1; n <= 3; n++ {
		if n > 1 {
			if err := r.startServer(ctx, o); err != nil {
				return nil, err
			}
		}
		if n == 2 {
			continue
		}
		clients, err := r.spread(o.Clients)
		if err != nil {
			return nil, err
		}
		space := fmt.Sprintf("bench-%d", n)
		if err := prepare(ctx, clients[0], space); err != nil {
			return nil, err
		}
		creates, gets, err := together(ctx, o, clients, space)
		if err != nil {
			return nil, err
		}
		if n == 1 {
			one, oneGet = creates, gets
		}
		all, allGet = creates, gets
	}
	const against = "one server, 1/s"
	return []Measure{
		{Name: fmt.Sprintf("create, %d clients of 3 servers", o.Clients), Value: all, Unit: frequency, Limit: one,
			Against: against},
		{Name: fmt.Sprintf("get, %d clients of 3 servers", o.Clients), Value: allGet, Unit: frequency, Limit: oneGet,
			Against: against},
	}, nil
}

// spread returns clients of all servers in turn.
func (r *rig) spread(n int) ([]*kubernetes.Clientset, error) {
	out := make([]*kubernetes.Clientset, n)
	for i := range out {
		var err error
		if out[i], err = r.client(r.servers[i%len(r.servers)], protobuf); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func together(ctx context.Context, o Options, clients []*kubernetes.Clientset, space string) (creates, gets float64,
	err error) {
	creates, err = rate(ctx, o.Clients, o.Duration, func(ctx context.Context, worker int, call int64) error {
		_, err := clients[worker].CoreV1().Pods(space).Create(ctx, pod(fmt.Sprintf("load-%07d", call)),
			metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	gets, err = rate(ctx, o.Clients, o.Duration, func(ctx context.Context, worker int, call int64) error {
		_, err := clients[worker].CoreV1().Pods(space).Get(ctx, fmt.Sprintf("load-%07d", 1+call%100), metav1.GetOptions{})
		return err
	})
	return creates, gets, err
}
