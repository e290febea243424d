package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"quintet.dev/quintet/checks"
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

// client does one thing after the other, and remembers what it last saw of each object.
type client struct {
	id      int
	objects []typedv1.ConfigMapInterface // by API server
	history *checks.History
	values  *atomic.Int64
	random  *rand.Rand
	seen    map[string]int64
}

func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		q := c.choose()
		end := c.history.Begin(c.id, q)
		// Its own context: the outcome of a cancelled request would be unknown.
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		r := c.ask(asking, q)
		cancel()
		end(r)
		switch {
		case r.Outcome == checks.Done && q.Verb != checks.Delete:
			c.seen[q.Key] = r.Version
		case r.Outcome != checks.Unknown:
			delete(c.seen, q.Key)
		default:
			wait(ctx, 50*time.Millisecond)
		}
		wait(ctx, time.Duration(c.random.IntN(4))*time.Millisecond)
	}
}

func (c *client) choose() checks.Request {
	now := c.history.Now() / epoch
	q := checks.Request{Key: fmt.Sprintf("e%d-%d", now, c.random.IntN(keysAtOnce))}
	version, known := c.seen[q.Key]
	switch n := c.random.IntN(100); {
	case n < 35:
		q.Verb = checks.Get
	case n < 55 || !known:
		q.Verb, q.Value = checks.Create, strconv.FormatInt(c.values.Add(1), 10)
	case n < 90:
		q.Verb, q.Value, q.Version = checks.Update, strconv.FormatInt(c.values.Add(1), 10), version
	default:
		q.Verb, q.Version = checks.Delete, version
	}
	return q
}

func (c *client) ask(ctx context.Context, q checks.Request) checks.Response {
	objects := c.objects[c.random.IntN(len(c.objects))]
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: q.Key}, Data: map[string]string{dataKey: q.Value}}
	var err error
	switch q.Verb {
	case checks.Create:
		obj, err = objects.Create(ctx, obj, metav1.CreateOptions{})
	case checks.Get:
		obj, err = objects.Get(ctx, q.Key, metav1.GetOptions{})
	case checks.Update:
		obj.ResourceVersion = strconv.FormatInt(q.Version, 10)
		obj, err = objects.Update(ctx, obj, metav1.UpdateOptions{})
	case checks.Delete:
		version := strconv.FormatInt(q.Version, 10)
		err = objects.Delete(ctx, q.Key,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return checks.Response{Outcome: checks.Exists}
	case apierrors.IsConflict(err):
		return checks.Response{Outcome: checks.Conflict}
	case apierrors.IsNotFound(err):
		return checks.Response{Outcome: checks.NotFound}
	case err != nil:
		return checks.Response{Outcome: checks.Unknown}
	case q.Verb == checks.Delete:
		return checks.Response{Outcome: checks.Done}
	}
	version, err := strconv.ParseInt(obj.ResourceVersion, 10, 64)
	if err != nil {
		return checks.Response{Outcome: checks.Unknown}
	}
	return checks.Response{Outcome: checks.Done, Value: obj.Data[dataKey], Version: version}
}
