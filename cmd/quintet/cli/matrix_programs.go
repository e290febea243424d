package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"quintet.dev/quintet/cluster"
)

// cellPrograms are the program files of a cell whose cluster is in process. One that ends by itself does not end its
// member: the suite runs on what there is of the cluster. The zero value is ready.
type cellPrograms struct {
	mu      sync.Mutex
	reasons []string
}

// options put the files of --program in the place of components. Their output goes to files in dir, too.
func (p *cellPrograms) options(f upFlags, dir string) ([]cluster.Option, error) {
	files, err := f.programFiles()
	if err != nil {
		return nil, err
	}
	var opts []cluster.Option
	for _, file := range files {
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
		p.mu.Lock()
		p.reasons = append(p.reasons, reason)
		p.mu.Unlock()
		<-ctx.Done()
		return nil
	}
}

// ended tells which programs ended before they were stopped.
func (p *cellPrograms) ended() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.reasons, "\n")
}
