package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/conformance/suite"
)

// cellPrograms are the program files of a cell whose cluster is in process. One that ends by itself does not end its
// member: the suite runs on what there is of the cluster. The zero value is ready.
type cellPrograms struct {
	mu         sync.Mutex
	reasons    []string
	components map[cluster.Component]*programLife
}

// programLife is that of a component's members.
type programLife struct {
	running int
	ctx     context.Context // ends with the last of them, for its reason
	end     context.CancelCauseFunc
}

// options put the files of --program in the place of components. Their output goes to files in dir, too. The lives of
// components end with ctx at the latest.
func (p *cellPrograms) options(ctx context.Context, f upFlags, dir string) ([]cluster.Option, error) {
	files, err := f.programFiles()
	if err != nil {
		return nil, err
	}
	var opts []cluster.Option
	p.components = map[cluster.Component]*programLife{}
	for _, file := range files {
		life := &programLife{}
		life.ctx, life.end = context.WithCancelCause(ctx)
		p.components[file.component] = life
		opts = append(opts, cluster.WithProgram(file.component, p.supervised(cluster.ProgramFile(file.path), dir)))
	}
	return opts, nil
}

// supervised notes why a program ended, and returns when the member is stopped.
func (p *cellPrograms) supervised(program cluster.Program, dir string) cluster.Program {
	return func(ctx context.Context, env cluster.Env) error {
		file := filepath.Join(dir, env.Name+".log")
		log, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		defer log.Close()
		env.Log = io.MultiWriter(env.Log, log)
		p.began(env.Component)
		err = program(ctx, env)
		if ctx.Err() != nil {
			return err
		}
		reason := fmt.Sprintf("%s ended by itself: exit code 0", env.Name)
		if err != nil {
			reason = fmt.Sprintf("%s ended by itself: %v", env.Name, err)
		}
		if last := lastLine(file); last != "" {
			reason += "; the last line of its log: " + last
		}
		p.note(env.Component, reason)
		<-ctx.Done()
		return nil
	}
}

func (p *cellPrograms) began(component cluster.Component) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.components[component].running++
}

// note keeps why a member of a component ended by itself.
func (p *cellPrograms) note(component cluster.Component, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reasons = append(p.reasons, reason)
	life := p.components[component]
	if life.running--; life.running == 0 {
		life.end(errors.New(reason))
	}
}

// lifetimes are those of the components that are program files, for the suite.
func (p *cellPrograms) lifetimes() map[suite.Component]context.Context {
	out := map[suite.Component]context.Context{}
	for component, life := range p.components {
		tested := suite.Component(component)
		if component == cluster.Node {
			tested = suite.Kubelet
		}
		out[tested] = life.ctx
	}
	return out
}

// replaces tells whether a program file is in the place of a component.
func (p *cellPrograms) replaces(component cluster.Component) bool {
	return p.components[component] != nil
}

// ended tells which programs ended before they were stopped.
func (p *cellPrograms) ended() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.reasons, "\n")
}
