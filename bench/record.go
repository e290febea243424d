package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/score"
)

// recordRounds is how often a load is measured with and without a recording, in turn: the best of each counts, which
// noise disturbs least.
const recordRounds = 3

// settling is how long nothing may change before a recorder is at rest.
const settling = 100 * time.Millisecond

// createLoad is how many pods were created per second, and the processor time of each, in milliseconds: that of server,
// etcd and clients, the recorder among them.
type createLoad struct{ perSecond, cpu float64 }

func (l createLoad) best(o createLoad) createLoad {
	if l.perSecond == 0 {
		return o
	}
	return createLoad{max(l.perSecond, o.perSecond), min(l.cpu, o.cpu)}
}

// record measures what recording a score costs: how many pods are created with it, against without.
func record(ctx context.Context, o Options) ([]Measure, error) {
	r, err := startRig(ctx, o, true)
	if err != nil {
		return nil, err
	}
	defer r.close()
	clients, err := r.clients(r.servers[0], o.Clients)
	if err != nil {
		return nil, err
	}
	config, err := r.config(r.servers[0], runtime.ContentTypeJSON)
	if err != nil {
		return nil, err
	}
	var with, without createLoad
	for round := range recordRounds {
		plain, err := r.creates(ctx, o, clients, fmt.Sprintf("plain-%d", round))
		if err != nil {
			return nil, err
		}
		recorder, err := score.Record(ctx, config, score.Options{})
		if err != nil {
			return nil, err
		}
		recorded, err := r.recorded(ctx, o, clients, recorder, fmt.Sprintf("recorded-%d", round))
		recorder.Stop()
		if err != nil {
			return nil, err
		}
		with, without = with.best(recorded), without.best(plain)
	}
	return []Measure{
		{Name: fmt.Sprintf("create, %d clients, recorded", o.Clients), Value: with.perSecond, Unit: frequency,
			Limit: without.perSecond, Against: "not recorded, 1/s", Aim: "≥ 0.95 of it"},
		{Name: "CPU per create, recorded", Value: with.cpu, Unit: "ms", Limit: without.cpu, Against: "not recorded, ms"},
	}, nil
}

// recorded is what clients do once the recorder knows what there was before.
func (r *rig) recorded(ctx context.Context, o Options, clients []*kubernetes.Clientset, recorder *score.Recorder,
	space string) (createLoad, error) {
	if err := recorder.Settle(ctx, settling); err != nil {
		return createLoad{}, err
	}
	return r.creates(ctx, o, clients, space)
}

// creates is what clients do in a namespace of their own.
func (r *rig) creates(ctx context.Context, o Options, clients []*kubernetes.Clientset, space string) (l createLoad,
	err error) {
	if err := prepare(ctx, clients[0], space); err != nil {
		return l, err
	}
	pids := []int{r.servers[0].pid(), r.etcd.pid(), os.Getpid()}
	before, err := cpu(pids...)
	if err != nil {
		return l, err
	}
	begin := time.Now()
	l.perSecond, err = rate(ctx, o.Clients, o.Duration, func(ctx context.Context, worker int, call int64) error {
		_, err := clients[worker].CoreV1().Pods(space).Create(ctx, pod(fmt.Sprintf("load-%07d", call)),
			metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return l, err
	}
	took := time.Since(begin)
	after, err := cpu(pids...)
	l.cpu = milliseconds(after-before) / (l.perSecond * took.Seconds())
	return l, err
}
