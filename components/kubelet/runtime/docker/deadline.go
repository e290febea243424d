package docker

import (
	"context"
	"time"
)

// requestTimeout bounds a request that the engine answers without waiting for a container or a registry, as
// --runtime-request-timeout of upstream's kubelet does.
const requestTimeout = 2 * time.Minute

// bounded ends with ctx, and after requestTimeout and what the request may take beyond it.
func bounded(ctx context.Context, beyond time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, requestTimeout+beyond)
}
