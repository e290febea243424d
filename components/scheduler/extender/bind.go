package extender

import (
	"context"
	"errors"

	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/cycle"
)

// Binder is a commit.Bind: the first extender that binds, and is interested in the pod, binds it.
type Binder []*Extender

// Name returns cycle.ExtenderName.
func (Binder) Name() string { return cycle.ExtenderName }

// Bind returns false for pods that the Bind plug-ins bind.
func (b Binder) Bind(ctx context.Context, p *commit.Placement) (bool, *commit.Status) {
	for _, e := range b {
		if !e.Binds() || !e.Interested(p.Pod) {
			continue
		}
		err := e.bind(ctx, p)
		switch {
		case err == nil:
			return true, nil
		case !e.Ignorable():
			return true, commit.Failed(cycle.ExtenderName, err)
		}
		klog.FromContext(ctx).Info("Skipping extender in bind as it returned error and has ignorable flag set", "extender",
			e.Name(), "err", err)
	}
	return false, nil
}

func (e *Extender) bind(ctx context.Context, p *commit.Placement) error {
	obj := p.Pod.Obj
	args := &extenderv1.ExtenderBindingArgs{PodName: obj.Name, PodNamespace: obj.Namespace, PodUID: obj.UID, Node: p.Node}
	var answer extenderv1.ExtenderBindingResult
	if err := e.send(ctx, e.config.BindVerb, args, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}
