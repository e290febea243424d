package rungtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/cluster"
)

// marks is what programs found of themselves: the user that the API server takes them for. It is safe for concurrent
// use.
type marks struct {
	mu    sync.Mutex
	users map[cluster.Component]string
}

func newMarks() *marks { return &marks{users: map[cluster.Component]string{}} }

// program is around the component's own, and notes as which user it speaks.
func (m *marks) program(ctx context.Context, env cluster.Env) error {
	fmt.Fprintln(env.Log, "a program of the test")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	asking.Go(func() { m.ask(ctx, env) })
	return env.Original(ctx, env)
}

func (m *marks) ask(ctx context.Context, env cluster.Env) {
	user := ""
	for env.RESTConfig != nil {
		var err error
		if user, err = whoAmI(ctx, env.RESTConfig); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users[env.Component] = user
}

// seen is the effect of the program in the place of a component.
func (m *marks) seen(component cluster.Component, user string) effect {
	return func(ctx context.Context, t *testing.T, c *cluster.Cluster, _ kubernetes.Interface) {
		eventually(ctx, t, func() error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if got, ok := m.users[component]; !ok || got != user {
				return fmt.Errorf("the program of %s is user %q (asked: %t), want %q", component, got, ok, user)
			}
			return nil
		})
		var log strings.Builder
		err := c.Component(component).Logs(ctx, &log)
		if err == nil && !strings.Contains(log.String(), "a program of the test") {
			err = errors.New(log.String())
		}
		if err != nil {
			t.Errorf("log of %s: %v", component, err)
		}
	}
}
