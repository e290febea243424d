package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/scheduler"
	"quintet.dev/quintet/why"
)

// explainTimeout bounds the question to the scheduler.
const explainTimeout = 10 * time.Second

type explainFlags struct{ kubeconfig, namespace, scheduler, output string }

func (a *app) explain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain pod NAME | explain pods",
		Short: "Tell why a pod has no node yet, by the scheduler's last decision",
		Example: `  quintet explain pod web-0
  quintet explain pods --namespace shop
  quintet explain pod web-0 --output json
  quintet explain pod web-0 --kubeconfig other.conf --scheduler https://10.0.0.5:10259`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), explainTimeout)
			defer cancel()
			switch kind := strings.TrimSuffix(args[0], "s"); {
			case kind == "pod" && len(args) == 2:
				return a.explainPod(ctx, f, args[1])
			case args[0] == "pods":
				return a.explainPods(ctx, f)
			}
			return errors.New("say which: quintet explain pod NAME, or quintet explain pods")
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.namespace, "namespace", "n", "default", "namespace of the pods")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file of another cluster; it needs --scheduler")
	fs.StringVar(&f.scheduler, "scheduler", "", "address of the scheduler's --secure-port, as https://HOST:PORT")
	outputFlag(cmd, &f.output)
	return cmd
}

func (a *app) explainPod(ctx context.Context, f explainFlags, name string) error {
	var e scheduler.Explanation
	if err := a.ask(ctx, f, "/explain/"+url.PathEscape(f.namespace)+"/"+url.PathEscape(name), &e); err != nil {
		return err
	}
	return a.print(f.output, e, func() error { return writeExplanation(a.out, &e) })
}

func (a *app) explainPods(ctx context.Context, f explainFlags) error {
	var all []scheduler.Explanation
	if err := a.ask(ctx, f, "/explain/"+url.PathEscape(f.namespace), &all); err != nil {
		return err
	}
	return a.print(f.output, all, func() error {
		table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "POD\tSTATE\tATTEMPTS\tREASON")
		for i := range all {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", all[i].Name, all[i].State, all[i].Attempts, all[i].Message)
		}
		return table.Flush()
	})
}

// ask gets JSON from the scheduler with the certificate of an administrator. The scheduler's own certificate is
// self-signed, so no other credentials are shown to it.
func (a *app) ask(ctx context.Context, f explainFlags, path string, into any) error {
	name, config, err := a.target(ctx, f.kubeconfig)
	if err != nil {
		return err
	}
	base := f.scheduler
	if base == "" && name != "" {
		base = a.state.entry(name).Scheduler
	}
	if base == "" {
		return errors.New("the address of the scheduler is not known; give it: --scheduler https://HOST:10259")
	}
	client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
		Insecure: true, CertData: config.CertData, CertFile: config.CertFile, KeyData: config.KeyData,
		KeyFile: config.KeyFile,
	}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+path, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16))
		return fmt.Errorf("the scheduler answers %s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// shownNodes is how many nodes are named per reason.
const shownNodes = 5

// writeExplanation writes for people.
func writeExplanation(w io.Writer, e *scheduler.Explanation) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Pod %s/%s is %s after %s.\n", e.Namespace, e.Name, e.State, counted(e.Attempts, "attempt"))
	if e.Message != "" {
		fmt.Fprintf(&b, "%s\n", e.Message)
	}
	if len(e.Refusals) > 0 {
		writeRefusals(&b, e)
	}
	if e.NominatedNode != "" {
		fmt.Fprintf(&b, "\nIt waits for room on %s, where %s ended for it.\n", e.NominatedNode, strings.Join(e.Victims, ", "))
	}
	if len(e.WouldHelp) > 0 {
		b.WriteString("\nIt is tried again upon:\n")
		for _, h := range e.WouldHelp {
			fmt.Fprintf(&b, "  %s: %s\n", h.Plugin, strings.Join(h.Events, ", "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeRefusals writes which plug-ins refused the pod, and what would help against each reason. A pod that was not
// tried was refused on no node.
func writeRefusals(b *strings.Builder, e *scheduler.Explanation) {
	of := ""
	if e.Nodes > 0 {
		of = ", of " + counted(e.Nodes, "node")
	}
	fmt.Fprintf(b, "\nRefused by%s:\n", of)
	table := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	var help []string
	for _, r := range e.Refusals {
		if r.Count == 0 {
			fmt.Fprintf(table, "  %s\t%s\n", r.Plugin, strings.Join(r.Reasons, ", "))
		} else {
			names := strings.Join(r.Names[:min(len(r.Names), shownNodes)], ", ")
			if r.Count > shownNodes {
				names += ", ..."
			}
			preemption := "preemption does not help"
			if r.Preemptable {
				preemption = "preemption may help"
			}
			fmt.Fprintf(table, "  %s\t%d\t%s\t%s\t%s\n", r.Plugin, r.Count, strings.Join(r.Reasons, ", "), names,
				preemption)
		}
		for _, reason := range r.Reasons {
			for _, text := range why.UnschedulableHelp(reason) {
				if !slices.Contains(help, text) {
					help = append(help, text)
				}
			}
		}
	}
	_ = table.Flush()
	if len(help) > 0 {
		b.WriteString("\nWhat would help:\n")
	}
	for _, text := range help {
		fmt.Fprintf(b, "  %s\n", text)
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
