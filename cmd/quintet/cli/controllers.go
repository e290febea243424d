package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"

	apiserver "quintet.dev/quintet/cmd/kube-apiserver/cli"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/controllers"
)

// controllersFile lies next to a kube-apiserver that runs controllers in its process, and names them as
// kube-controller-manager's flag does. Envtest starts an API server and nothing else: so its tests have garbage
// collection and the like with no line of their own.
const controllersFile = "kube-apiserver.controllers"

// controllersIn reads which controllers are to run with the API server in dir.
func controllersIn(dir string) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(dir, controllersFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(content)), err
}

// putControllers writes which controllers are to run with the API server in dir; none removes what was written.
func putControllers(dir string, names []string) error {
	file := filepath.Join(dir, controllersFile)
	if len(names) == 0 {
		if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if _, err := controllers.New(managerOf(names, &rest.Config{}, options.Config{})); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strings.Join(names, "\n")+"\n"), 0o644)
}

// withControllers runs controllers as clients of the API server of the same process.
func withControllers(names []string) apiserver.Beside {
	return func(ctx context.Context, client *rest.Config, config options.Config) error {
		manager, err := controllers.New(managerOf(names, client, config))
		if err != nil {
			return fmt.Errorf("%s: %w", controllersFile, err)
		}
		return manager.Run(ctx)
	}
}

func managerOf(names []string, client *rest.Config, config options.Config) controllers.Config {
	c := controllers.DefaultConfig()
	c.Client, c.Controllers = client, names
	c.KubeAPIQPS = -1              // there are no other clients to protect
	c.LeaderElection.Elect = false // there is one server, and so one manager
	c.SecurePort = 0
	c.ServiceAccountPrivateKeyFile = config.ServiceAccountSigningKey
	c.ServiceClusterIPRange = config.ServiceClusterIPRange
	return c
}
