package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The crowd, for each pod that lists return elsewhere: 1,000 namespaces and 100,000 objects if these are 10,000.
const (
	objectsPerPod  = 10
	objectsPerName = 100 // of namespaces
)

// crowd measures whether the server stalls while it fills up: another client asks for an object every few milliseconds.
func crowd(ctx context.Context, o Options) ([]Measure, error) {
	r, err := startRig(ctx, o, true)
	if err != nil {
		return nil, err
	}
	defer r.close()
	s := r.servers[0]
	clients, err := r.clients(s, o.Clients+1)
	if err != nil {
		return nil, err
	}
	asker := clients[o.Clients]
	stopAsking := make(chan struct{})
	var asking sync.WaitGroup
	var longest time.Duration
	var failed error
	asking.Go(func() {
		for {
			select {
			case <-stopAsking:
				return
			case <-time.After(5 * time.Millisecond):
			}
			begin := time.Now()
			if _, failed = asker.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); failed != nil {
				return
			}
			longest = max(longest, time.Since(begin))
		}
	})
	objects := o.Pods * objectsPerPod
	spaces := objects / objectsPerName
	begin := time.Now()
	err = fill(ctx, o, spaces, objects, func(ctx context.Context, worker, i int) error {
		client, space := clients[worker].CoreV1(), fmt.Sprintf("crowd-%04d", i%spaces)
		if i < spaces {
			_, err := client.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}},
				metav1.CreateOptions{})
			return err
		}
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("object-%06d", i)},
			Data: map[string]string{"key": "value"}}
		_, err := client.ConfigMaps(space).Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	took := time.Since(begin)
	close(stopAsking)
	asking.Wait()
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	full, err := resident(s.pid())
	return []Measure{
		{Name: fmt.Sprintf("create, %d objects", objects), Value: float64(objects) / took.Seconds(), Unit: frequency},
		{Name: "longest wait for a get meanwhile", Value: milliseconds(longest), Unit: "ms", Aim: "≤ 100 ms"},
		{Name: fmt.Sprintf("resident, %d objects", objects), Value: full, Unit: "MiB"},
	}, err
}

// fill makes the namespaces, then all else.
func fill(ctx context.Context, o Options, spaces, objects int, op func(ctx context.Context, worker,
	i int) error) error {
	if err := each(ctx, o.Clients, spaces, op); err != nil {
		return err
	}
	return each(ctx, o.Clients, objects-spaces, func(ctx context.Context, worker, i int) error {
		return op(ctx, worker, spaces+i)
	})
}
