// Package command runs a component's Config as a program: flags, signals, logging and exit code.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
)

// Config is what a component takes from its command line.
type Config interface {
	AddFlags(fs *pflag.FlagSet)
}

// Program describes one of Quintet's programs.
type Program struct {
	Name    string // upstream's name of the program, e.g. "kube-scheduler"
	Short   string // one line
	Example string // how it is called
	Config  Config
	// Run does the work until ctx ends; it is called after the flags were parsed into Config.
	Run func(ctx context.Context) error
}

// Main runs p with the process's arguments and signals and returns the exit code. SIGINT and SIGTERM end
// the context given to Run; a second signal kills the process.
func Main(p Program) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // a second signal then has its default effect
	}()
	return Execute(ctx, p, os.Args[1:], os.Stderr)
}

// Execute is Main without the process: it parses args, runs p until ctx ends and writes a failure to stderr.
func Execute(ctx context.Context, p Program, args []string, stderr io.Writer) int {
	cmd := build(p)
	cmd.SetArgs(args)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	logs.FlushLogs()
	if err == nil || (errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		return 0
	}
	fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
	return 1
}

func build(p Program) *cobra.Command {
	logging := logsapi.NewLoggingConfiguration()
	version := &versionFlag{}
	cmd := &cobra.Command{
		Use:           p.Name,
		Short:         p.Short,
		Example:       p.Example,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version.print {
				return version.write(cmd.OutOrStdout())
			}
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return err
			}
			return p.Run(cmd.Context())
		},
	}
	cmd.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	logsapi.AddFlags(logging, cmd.Flags())
	version.addTo(cmd.Flags())
	p.Config.AddFlags(cmd.Flags())
	return cmd
}
