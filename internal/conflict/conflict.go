// Package conflict repeats writes that met another one.
package conflict

import (
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// Retry is client-go's RetryOnConflict, but returns the error of the last attempt. client-go returns the conflict
// before it, or nil, which is success, when an attempt fails with the end of its context.
func Retry(backoff wait.Backoff, attempt func() error) (last error) {
	_ = retry.RetryOnConflict(backoff, func() error {
		last = attempt()
		return last
	})
	return last
}
