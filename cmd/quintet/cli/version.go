package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/internal/release"
)

// versions is the output of `quintet version`.
type versions struct {
	Quintet    string `json:"quintet"`    // a release, what `git describe` says, or devel
	Kubernetes string `json:"kubernetes"` // the release whose API the components have
	Commit     string `json:"commit"`
	TreeState  string `json:"treeState"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

func currentVersions() versions {
	info := release.Get()
	return versions{Quintet: release.Own(), Kubernetes: info.GitVersion, Commit: info.GitCommit,
		TreeState: info.GitTreeState, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

func (a *app) version() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of its Kubernetes",
		Example: `  quintet version
  quintet version -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := currentVersions()
			return a.print(output, v, func() error {
				_, err := fmt.Fprintf(a.out, "Quintet %s\nKubernetes %s\ncommit %s (%s)\n%s %s\n", v.Quintet, v.Kubernetes,
					v.Commit, v.TreeState, v.Go, v.Platform)
				return err
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}
