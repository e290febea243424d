package cli

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// assetNames are the programs that envtest looks for in $KUBEBUILDER_ASSETS.
var assetNames = []string{"etcd", "kube-apiserver", "kubectl"}

func (a *app) assets() *cobra.Command {
	var controllers []string
	cmd := &cobra.Command{
		Use:   "assets DIR",
		Short: "Write etcd, kube-apiserver and kubectl into a folder, for envtest",
		Long: `Write etcd, kube-apiserver and kubectl into a folder, so that a project that tests with controller-runtime's envtest runs on
Quintet. What is printed sets the variable by which envtest finds them.

Nothing is downloaded or built, and the folder needs nothing else: this program is each of the three, if it is called
by its name. Where the programs themselves stand beside this one and are of its build, they are taken, as they start sooner.

With --controllers, controllers run in the process of each kube-apiserver that is started from the folder: what is owned
is collected with its owner, namespaces go, deployments have pods. Pods don't run, as there is no node.`,
		Example: `  eval "$(quintet assets bin/envtest)" && go test ./...
  quintet assets --controllers=garbagecollector,namespace,serviceaccount bin/envtest
  quintet assets --controllers='*,-nodelifecycle' bin/envtest`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if err := writeAssets(dir, self, controllers); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "export KUBEBUILDER_ASSETS=%s\n", quoted(dir))
			return err
		},
	}
	cmd.Flags().StringSliceVar(&controllers, "controllers", nil,
		"controllers to run with the API server, as kube-controller-manager's flag has them; none by default")
	return cmd
}

// writeAssets writes the programs into dir; self is the file that this program runs from. Running processes keep the
// programs of an earlier call.
func writeAssets(dir, self string, controllers []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := putControllers(dir, controllers); err != nil {
		return err
	}
	written := map[string]string{} // source: where its content is in dir
	for _, name := range assetNames {
		source := filepath.Join(filepath.Dir(self), name)
		if !sameBuild(source, name) || name == "kube-apiserver" && len(controllers) > 0 {
			// controllers are in this program
			source = self
		}
		target := filepath.Join(dir, name)
		if err := place(source, written[source], target); err != nil {
			return err
		}
		written[source] = target
	}
	return nil
}

// sameBuild reports whether file is the program of that name, of the same build of Quintet as the one that runs.
func sameBuild(file, name string) bool {
	own, ok := debug.ReadBuildInfo()
	info, err := buildinfo.ReadFile(file)
	return ok && err == nil && info.Path == path.Join(own.Main.Path, "cmd", name) &&
		info.Main.Version == own.Main.Version && info.GoVersion == own.GoVersion
}

// place makes target a program with the content of source, of which twin may be a copy in the same directory already.
func place(source, twin, target string) error {
	fresh := target + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if twin == "" || os.Link(twin, fresh) != nil { // not every file system has links
		if err := copyProgram(source, fresh); err != nil {
			return err
		}
	}
	return os.Rename(fresh, target)
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// quoted is s as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
