package cri

import (
	"context"
	"fmt"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// networkPoll is how often the engine is asked whether it has read a new configuration of the network.
const networkPoll = 50 * time.Millisecond

// SetPodCIDRs implements runtime.Runtime: it tells the engine the ranges and waits until its network is ready. The
// engine configures CNI itself, or a plug-in that comes later does.
func (e *Engine) SetPodCIDRs(ctx context.Context, cidrs []string) (err error) {
	defer e.observe("update_runtime_config", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	_, err = e.runtime.UpdateRuntimeConfig(ctx, &cri.UpdateRuntimeConfigRequest{RuntimeConfig: &cri.RuntimeConfig{
		NetworkConfig: &cri.NetworkConfig{PodCidr: strings.Join(cidrs, ",")},
	}})
	if err != nil {
		return fmt.Errorf("pod CIDRs %v: %w", cidrs, mark(err))
	}
	for {
		answer, err := e.runtime.Status(ctx, &cri.StatusRequest{})
		if err == nil {
			err = condition(answer.GetStatus(), cri.NetworkReady)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pod network of the container engine: %w", err)
		case <-time.After(networkPoll):
		}
	}
}
