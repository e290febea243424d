package robustness

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	namespace = "default"
	// keysAtOnce is how many objects clients contend for; after an epoch they use others, so that histories stay short
	// enough to be checked.
	keysAtOnce = 4
	epoch      = 2 * time.Second
	// requestTimeout is how long a client waits for a response.
	requestTimeout = 3 * time.Second
	dataKey        = "v"
)

// history is what clients did, by the clock of this process.
type history struct {
	began time.Time
	mu    sync.Mutex
	done  []porcupine.Operation
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

func (h *history) add(client int, q request, call int64, r response) {
	end := h.now()
	if r.outcome == unknown {
		if q.verb == get {
			return // tells nothing
		}
		end = math.MaxInt64 // it may still happen
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, porcupine.Operation{ClientId: client, Input: q, Call: call, Output: r, Return: end})
}

// client does one thing after the other, and remembers what it last saw of each object.
type client struct {
	id      int
	objects []typedv1.ConfigMapInterface // by API server
	history *history
	values  *atomic.Int64
	random  *rand.Rand
	seen    map[string]int64
}

func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		q := c.choose()
		call := c.history.now()
		// Its own context: the outcome of a cancelled request would be unknown.
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		r := c.ask(asking, q)
		cancel()
		c.history.add(c.id, q, call, r)
		switch {
		case r.outcome == done && q.verb != remove:
			c.seen[q.key] = r.version
		case r.outcome != unknown:
			delete(c.seen, q.key)
		default:
			wait(ctx, 50*time.Millisecond)
		}
		wait(ctx, time.Duration(c.random.IntN(4))*time.Millisecond)
	}
}

func (c *client) choose() request {
	now := time.Since(c.history.began) / epoch
	q := request{key: fmt.Sprintf("e%d-%d", now, c.random.IntN(keysAtOnce))}
	version, known := c.seen[q.key]
	switch n := c.random.IntN(100); {
	case n < 35:
		q.verb = get
	case n < 55 || !known:
		q.verb, q.value = create, strconv.FormatInt(c.values.Add(1), 10)
	case n < 90:
		q.verb, q.value, q.expected = update, strconv.FormatInt(c.values.Add(1), 10), version
	default:
		q.verb, q.expected = remove, version
	}
	return q
}

func (c *client) ask(ctx context.Context, q request) response {
	objects := c.objects[c.random.IntN(len(c.objects))]
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: q.key}, Data: map[string]string{dataKey: q.value}}
	var err error
	switch q.verb {
	case create:
		obj, err = objects.Create(ctx, obj, metav1.CreateOptions{})
	case get:
		obj, err = objects.Get(ctx, q.key, metav1.GetOptions{})
	case update:
		obj.ResourceVersion = strconv.FormatInt(q.expected, 10)
		obj, err = objects.Update(ctx, obj, metav1.UpdateOptions{})
	case remove:
		version := strconv.FormatInt(q.expected, 10)
		err = objects.Delete(ctx, q.key,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return response{outcome: exists}
	case apierrors.IsConflict(err):
		return response{outcome: conflict}
	case apierrors.IsNotFound(err):
		return response{outcome: notFound}
	case err != nil:
		return response{outcome: unknown}
	case q.verb == remove:
		return response{outcome: done}
	}
	version, err := strconv.ParseInt(obj.ResourceVersion, 10, 64)
	if err != nil {
		return response{outcome: unknown}
	}
	return response{outcome: done, value: obj.Data[dataKey], version: version}
}
