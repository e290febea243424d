package apiserver

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"quintet.dev/quintet/components/apiserver/options"
)

// begun is what runs since New, as a store in memory has nothing that it could break: the caches over it, and the writing of what all
// clusters start with. It shortens the start by what the rest of New takes.
type begun struct {
	group *errgroup.Group
	stop  context.CancelFunc
	laid  chan struct{} // closed when that is written
	of    *borrowed     // what it runs by
}

// borrowed is a context with the values of another one, such as its logger, as soon as that is known.
type borrowed struct {
	context.Context
	from atomic.Pointer[context.Context]
}

// Value implements context.Context.
func (b *borrowed) Value(key any) any {
	if from := b.from.Load(); from != nil {
		return (*from).Value(key)
	}
	return b.Context.Value(key)
}

// begin lets Run find done what doesn't need the parts of the server that aren't made yet.
func (s *Server) begin() {
	if s.config.Storage != options.StorageMemory || s.config.Store != nil {
		return
	}
	of := &borrowed{Context: context.Background()}
	ctx, stop := context.WithCancel(of)
	group, ctx := errgroup.WithContext(ctx)
	s.begun = &begun{group: group, stop: stop, laid: make(chan struct{}), of: of}
	for _, p := range s.places {
		group.Go(func() error { return p.run(ctx) })
	}
	group.Go(func() error {
		if err := s.each(func(p *place) error { return p.caches.WaitReady(ctx) }); err != nil {
			return err
		}
		if err := s.bootstrap.Lay(ctx); err != nil {
			return err
		}
		close(s.begun.laid)
		return nil
	})
}

// end stops what runs, and returns when it has ended.
func (b *begun) end() {
	if b != nil {
		b.stop()
		_ = b.group.Wait()
	}
}

// layFirst writes the first objects, or what is missing of them if that has begun.
func (s *Server) layFirst(ctx context.Context) error {
	if s.begun == nil {
		return s.bootstrap.Ensure(ctx)
	}
	if err := s.bootstrap.Introduce(ctx); err != nil {
		return err
	}
	select {
	case <-s.begun.laid:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runPlaces fills the caches and keeps them as their stores are, until ctx ends.
func (s *Server) runPlaces(ctx context.Context) error {
	if s.begun != nil {
		s.begun.of.from.Store(&ctx)
		defer context.AfterFunc(ctx, s.begun.stop)()
		return s.begun.group.Wait()
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range s.places {
		group.Go(func() error { return p.run(ctx) })
	}
	return group.Wait()
}
