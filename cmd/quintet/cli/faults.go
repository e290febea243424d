package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/faults"
)

type faultFlags struct {
	kubeconfig, user, log string
	seed                  uint64
	shrink                bool
}

func (a *app) faults() *cobra.Command {
	var f faultFlags
	cmd := &cobra.Command{
		Use:   "faults PLAN -- COMMAND [ARGUMENT...]",
		Short: "Run a command whose requests to the API server are disturbed by a plan",
		Long: `Run a command whose requests to the API server are disturbed by a plan: delays, conflicts and other refusals, replies
that are lost after the write, watches that are cut, stall or deliver twice. The command finds the cluster by KUBECONFIG.

Which requests are disturbed is decided by the plan's seed, the verb, the object and how often it was asked for before,
so that the same seed disturbs the same requests whatever the timing. A plan is YAML:

  seed: 7
  rules:
  - name: conflicts
    match: {verbs: [update, patch], resources: [deployments.apps, "*/status"]}
    probability: 0.2        # of the matching requests; all without
    times: 3                # at most, per object and verb
    fault: {status: 409}    # or delay: 200ms, status: 429, loseReply: true,
  - match: {verbs: [watch]} #    cut: true, stall: 2s, duplicate: true
    fault: {cut: true, after: 5, spread: 20}

The exit code is the command's. With --shrink, the command runs many times, and has to succeed without faults.`,
		Example: `  quintet faults plan.yaml -- go test ./controllers
  quintet faults plan.yaml --seed 8 --log injected.json -- ./my-operator
  quintet faults plan.yaml --shrink -- go test ./controllers   # the fewest rules with which it still fails`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := readPlan(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("seed") {
				plan.Seed = f.seed
			}
			_, config, err := a.target(cmd.Context(), f.kubeconfig)
			if err != nil {
				return err
			}
			if f.shrink {
				return a.shrinkFaults(cmd.Context(), f, plan, config, args[1:])
			}
			return a.runDisturbed(cmd.Context(), f, plan, config, args[1:])
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file of another cluster")
	fs.StringVar(&f.user, "user", "client", "name by which rules know the command's requests")
	fs.StringVar(&f.log, "log", "", "file for what was injected, as JSON")
	fs.Uint64Var(&f.seed, "seed", 0, "seed in the place of the plan's")
	fs.BoolVar(&f.shrink, "shrink", false, "find the fewest rules with which the command still fails, and print them")
	return cmd
}

// disturbedKubeconfig names the variable by which quintet kubectl, within a command of quintet faults, finds the
// cluster.
const disturbedKubeconfig = "QUINTET_FAULTS_KUBECONFIG"

func readPlan(file string) (faults.Plan, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return faults.Plan{}, err
	}
	plan, err := faults.Load(file, text)
	if err != nil {
		return plan, err
	}
	if len(plan.Rules) == 0 {
		return plan, fmt.Errorf("%s: rules: there are none; quintet faults --help shows a plan", file)
	}
	return plan, nil
}

// runDisturbed runs a command through a proxy of its own.
func (a *app) runDisturbed(ctx context.Context, f faultFlags, plan faults.Plan, config *rest.Config,
	command []string) (err error) {
	injector, err := faults.New(plan)
	if err != nil {
		return err
	}
	proxy, err := faults.NewProxy(injector)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	disturbed, err := proxy.For(f.user, config)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "quintet-faults-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfigOf(disturbed), file); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, a.out, a.err
	cmd.Env = append(os.Environ(), "KUBECONFIG="+file, disturbedKubeconfig+"="+file)
	failed := cmd.Run()
	log := injector.Log()
	if proxy.Requests() == 0 {
		fmt.Fprintln(a.err, "quintet faults: no request of the command came through; it must find its cluster by "+
			"KUBECONFIG")
	}
	fmt.Fprintf(a.err, "quintet faults: seed %d, %d requests disturbed\n", plan.Seed, len(log))
	if f.log != "" {
		text, err := json.MarshalIndent(log, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.log, append(text, '\n'), 0o644); err != nil {
			return errors.Join(failed, err)
		}
	}
	var exit *exec.ExitError
	if errors.As(failed, &exit) && exit.ExitCode() > 0 {
		return exitError(exit.ExitCode())
	}
	return failed
}

// kubeconfigOf is a kubeconfig file's content for a client that has a token.
func kubeconfigOf(c *rest.Config) clientcmdapi.Config {
	const name = "faults"
	return clientcmdapi.Config{CurrentContext: name,
		Clusters:  map[string]*clientcmdapi.Cluster{name: {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {Token: c.BearerToken}},
		Contexts:  map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}}}
}

// shrinkFaults prints the plan with the fewest rules with which a command fails. A command that fails without any is an
// error, as is one that does not fail by the whole plan.
func (a *app) shrinkFaults(ctx context.Context, f faultFlags, plan faults.Plan, config *rest.Config,
	command []string) error {
	fails := func(p faults.Plan) bool {
		if len(p.Rules) == 0 {
			fmt.Fprintln(a.err, "quintet faults: trying without faults")
		} else {
			fmt.Fprintf(a.err, "quintet faults: trying %d of %d rules\n", len(p.Rules), len(plan.Rules))
		}
		return ctx.Err() == nil && a.runDisturbed(ctx, f, p, config, command) != nil
	}
	if !fails(plan) {
		return errors.New("the command does not fail by this plan and seed: nothing to shrink")
	}
	least := faults.Shrink(plan, fails)
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(least.Rules) == 0 {
		return errors.New("the command fails without any fault; there is nothing to shrink")
	}
	text, err := yaml.Marshal(least)
	if err != nil {
		return err
	}
	_, err = a.out.Write(text)
	return err
}
