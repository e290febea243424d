package crd

import (
	"context"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// settling is for how long others may not have seen that a definition is established, as upstream has it.
const settling = 2 * time.Second

// settle waits, where others serve the same objects, if the resource is only just there.
func (m *Manager) settle(ctx context.Context, r *resource) {
	if m.config.Clock.Since(time.Unix(r.turned.Load(), 0)) >= settling || m.config.Shared == nil ||
		!m.config.Shared(ctx) {
		return
	}
	select {
	case <-ctx.Done():
	case <-m.config.Clock.After(settling): // whole: the definition has the time in seconds
	}
}

// turnedAt is when a definition was last said to be established, or not to be; 0 if neither was said.
func turnedAt(crd *definition) int64 {
	if c := apihelpers.FindCRDCondition(crd, apiextensionsv1.Established); c != nil {
		return c.LastTransitionTime.Unix()
	}
	return 0
}
