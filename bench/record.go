package bench

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/score"
)

// recordRounds is how often a load is measured with and without a recording, in turn: the best of each counts, which
// noise disturbs least.
const recordRounds = 3

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
	var with, without float64
	for round := range recordRounds {
		plain, err := r.creates(ctx, o, clients, fmt.Sprintf("plain-%d", round))
		if err != nil {
			return nil, err
		}
		recorder, err := score.Record(ctx, config, score.Options{})
		if err != nil {
			return nil, err
		}
		recorded, err := r.creates(ctx, o, clients, fmt.Sprintf("recorded-%d", round))
		recorder.Stop()
		if err != nil {
			return nil, err
		}
		with, without = max(with, recorded), max(without, plain)
	}
	return []Measure{{Name: fmt.Sprintf("create, %d clients, recorded", o.Clients), Value: with, Unit: frequency,
		Limit: without, Against: "not recorded, 1/s", Aim: "≥ 0.95 of it"}}, nil
}

// creates is how many pods clients create per second in a namespace of their own.
func (r *rig) creates(ctx context.Context, o Options, clients []*kubernetes.Clientset, space string) (float64, error) {
	if err := prepare(ctx, clients[0], space); err != nil {
		return 0, err
	}
	return rate(ctx, o.Clients, o.Duration, func(ctx context.Context, worker int, call int64) error {
		_, err := clients[worker].CoreV1().Pods(space).Create(ctx, pod(fmt.Sprintf("load-%07d", call)),
			metav1.CreateOptions{})
		return err
	})
}
