// Package watchtest has the watches of client-go's fake clients deliver copies, as those of an API server do.
package watchtest

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// Client is a fake client, which keeps its objects in a tracker.
type Client interface {
	PrependWatchReactor(resource string, reaction clienttesting.WatchReactionFunc)
	Tracker() clienttesting.ObjectTracker
}

// Copy makes the watches of a client deliver copies from now on. By itself it delivers what was written between a list
// and the watch after it as it keeps it, and transforms of informers change what they get, while others read it.
func Copy(client Client) {
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		var o metav1.ListOptions
		if w, ok := action.(clienttesting.WatchActionImpl); ok {
			o = w.ListOptions
		}
		kept, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace(), o)
		if err != nil {
			return true, nil, err
		}
		c := &copies{kept: kept, out: make(chan watch.Event), stopped: make(chan struct{})}
		go c.run()
		return true, c, nil
	})
}

type copies struct {
	kept    watch.Interface
	out     chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

func (c *copies) ResultChan() <-chan watch.Event { return c.out }

func (c *copies) Stop() {
	c.stop.Do(func() {
		close(c.stopped)
		c.kept.Stop()
	})
}

// run ends when the watch does.
func (c *copies) run() {
	defer close(c.out)
	for e := range c.kept.ResultChan() {
		e.Object = e.Object.DeepCopyObject()
		select {
		case c.out <- e:
		case <-c.stopped:
			return
		}
	}
}
