package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/score"
)

type scoreFlags struct {
	kubeconfig string
	files      []string
	limit      int
	settle     time.Duration
}

func (a *app) score() *cobra.Command {
	var f scoreFlags
	cmd := &cobra.Command{
		Use:   "score -- COMMAND [ARGUMENT...]",
		Short: "Record who wrote what in the cluster while a command runs, and why",
		Long: `Record who wrote what in the cluster while a command runs, and why: every change of every object of any
kind, custom resources included, in all namespaces. Any cluster can be recorded, as it is only watched: managed fields
tell the writers. The command finds the cluster by KUBECONFIG. The recording goes on when watches are lost and API
servers are killed; what was found by listing says so.

The result is a page that needs nothing else, with the sequence and the graph of owners, or JSON, by the ends of the
files' names. The exit code is the command's.`,
		Example: `  quintet score -- go test ./controllers             # writes score.html
  quintet score -o before.json -o before.html -- kubectl apply -f app.yaml
  quintet score --kubeconfig other.conf -- ./my-operator-test
  quintet score compare before.json after.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			name, config, err := a.target(cmd.Context(), f.kubeconfig)
			if err != nil {
				return err
			}
			if f.kubeconfig == "" {
				f.kubeconfig = a.state.kubeconfig(name)
			}
			return a.runRecorded(cmd.Context(), f, config, args)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file of another cluster")
	fs.StringArrayVarP(&f.files, "output", "o", []string{"score.html"},
		"file for the score, which ends in .html or .json; may be given more than once")
	limitFlag(cmd, &f.limit)
	fs.DurationVar(&f.settle, "settle", time.Second,
		"go on after the command until nothing changed for so long, for ten times as long at most")
	cmd.AddCommand(a.compareScores())
	return cmd
}

func limitFlag(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", score.DefaultMaxEntries,
		"how many changes are kept; of more, the oldest are dropped and counted")
}

func (f *scoreFlags) check() error {
	if err := checkScoreFiles(f.files); err != nil {
		return err
	}
	if f.settle < 0 {
		return fmt.Errorf("--settle %v: it may not be negative", f.settle)
	}
	return checkLimit(f.limit)
}

func checkScoreFiles(files []string) error {
	for _, file := range files {
		if end := filepath.Ext(file); end != ".html" && end != ".json" {
			return fmt.Errorf("--output %q: the name must end in .html or .json", file)
		}
	}
	return nil
}

// checkLimit refuses what Options take for their default.
func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("--limit must be at least 1: %d", limit)
	}
	return nil
}

// runRecorded runs a command and writes the score of what went on meanwhile, however it ends.
func (a *app) runRecorded(ctx context.Context, f scoreFlags, config *rest.Config, command []string) error {
	recorder, err := score.Record(ctx, config, score.Options{MaxEntries: f.limit})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, a.out, a.err
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.kubeconfig)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	failed := cmd.Run()
	settling, cancel := context.WithTimeout(ctx, 10*f.settle)
	_ = recorder.Settle(settling, f.settle) // a cluster that is never at rest is recorded until then
	cancel()
	recorded := recorder.Stop()
	fmt.Fprintf(a.err, "quintet score: %d changes\n", len(recorded.Entries))
	if recorded.Dropped > 0 {
		fmt.Fprintf(a.err, "quintet score: %d older changes were dropped: see --limit\n", recorded.Dropped)
	}
	if err := saveScore(recorded, f.files); err != nil {
		return errors.Join(failed, err)
	}
	var exit *exec.ExitError
	if errors.As(failed, &exit) && exit.ExitCode() > 0 {
		return exitError(exit.ExitCode())
	}
	return failed
}

func saveScore(s *score.Score, files []string) error {
	for _, file := range files {
		save := s.SaveHTML
		if filepath.Ext(file) == ".json" {
			save = s.Save
		}
		if err := save(file); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) compareScores() *cobra.Command {
	var output string
	var ignore []string
	cmd := &cobra.Command{
		Use:   "compare FIRST.json SECOND.json",
		Short: "Tell in what two scores differ",
		Long: `Tell in what two scores differ, object by object: objects that only one has, who wrote them, how often and
in which order, the reasons of events, and durations that are more than twice as long. Generated parts of names are
not compared.`,
		Example: `  quintet score compare before.json after.json
  quintet score compare before.json after.json --output html > difference.html
  quintet score compare before.json after.json --output json --ignore Lease,Node`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, file := range args {
				if filepath.Ext(file) == ".html" {
					return fmt.Errorf("%s is a page; compare takes the .json: quintet score -o FILE.json -- COMMAND", file)
				}
			}
			first, err := score.Load(args[0])
			if err != nil {
				return err
			}
			second, err := score.Load(args[1])
			if err != nil {
				return err
			}
			comparison := score.Compare(first, second, ignore...)
			if output == "html" {
				return comparison.WriteHTML(a.out)
			}
			return a.print(output, comparison, func() error { return comparison.WriteText(a.out) })
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "html, json or yaml instead of text")
	cmd.Flags().StringSliceVar(&ignore, "ignore", []string{"Lease"}, "kinds that are not compared")
	return cmd
}
