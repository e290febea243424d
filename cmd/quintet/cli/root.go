// Package cli is the command line of Quintet.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/internal/release"
)

// app is what the commands share: the streams and where state is kept.
type app struct {
	out, err io.Writer
	in       io.Reader
	state    state
	// name is the cluster chosen by --name; empty means the only one there is.
	name string
	// release gives signals their usual effect back, for commands that see to them themselves; it may be nil.
	release func()
}

// exitError ends the program with a code and without another message.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Main runs the program that the process was called as, with the process's arguments and signals, and returns the exit
// code.
func Main() int {
	if program := calledAs(os.Args[0]); program != nil {
		return program()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal has its usual effect
	dir, err := defaultStateDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quintet:", err)
		return 1
	}
	a := &app{out: os.Stdout, err: os.Stderr, in: os.Stdin, state: state{dir}, release: stop}
	return a.execute(ctx, os.Args[1:])
}

func (a *app) execute(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetIn(a.in)
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	default:
		fmt.Fprintln(a.err, "quintet:", err)
		return 1
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "quintet",
		Short: "The Kubernetes made for tests",
		Long: `Quintet starts Kubernetes clusters for tests in a blink, lets you swap and break their parts, and proves them right.

A cluster is a set of containers: etcd, API server, controller manager, scheduler, and nodes that run real pods. With
--in-process it is a single process without Docker, whose pods only pretend.`,
		Example: `  quintet up --nodes 2
  quintet kubectl get nodes
  quintet kubectl apply -f deployment.yaml
  quintet conformance --profile full --report report
  quintet down
  source <(quintet completion bash)`,
		Version:       fmt.Sprintf("%s (Kubernetes %s)", release.Own(), release.Get().GitVersion),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&a.name, "name", "",
		"name of the cluster; may be left out where there is only one")
	conformance, matrix := a.conformance(), a.matrix()
	root.AddCommand(a.verbs()...)
	root.AddCommand(a.disturbances()...)
	root.AddCommand(a.up(), a.down(), a.node(), a.token(), a.joinCommand(), a.export(), a.status(), a.kubeconfig(),
		a.load(), a.snapshot(), a.restore(), a.registry(), a.logs(), a.kubectl(), a.images(), a.explain(), a.why(),
		a.faults(), a.score(), a.watch(), a.assets(), conformance, matrix, a.report(), a.bench(), a.version())
	a.addCompletion(root)
	tellContainers(root)
	tellArguments(root)
	refuseUnknown(root)
	a.noVerdict(conformance)
	a.noVerdict(matrix)
	root.SetFlagErrorFunc(flagError)
	return root
}
