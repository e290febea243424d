package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// lockPoll is how often a lock is tried that another program holds.
const lockPoll = 50 * time.Millisecond

// DefaultFile is the file that kubectl changes: of $KUBECONFIG, or ~/.kube/config.
func DefaultFile() string { return clientcmd.NewDefaultPathOptions().GetDefaultFilename() }

// Merge adds the current context of the kubeconfig content to file as entry: the name of a context, a cluster and a
// user, which replace those of the same name. The context becomes the current one. The file is made if it does not
// exist, and then marked as made here, for Remove. It is locked meanwhile, as kubectl does: by a file of its name and
// ".lock", which is waited for until ctx ends.
func Merge(ctx context.Context, file, entry string, content []byte) error {
	added, err := clientcmd.Load(content)
	if err != nil {
		return err
	}
	at := added.Contexts[added.CurrentContext]
	if at == nil || added.Clusters[at.Cluster] == nil || added.AuthInfos[at.AuthInfo] == nil {
		return errors.New("the kubeconfig has no complete current context")
	}
	return change(ctx, file, func(config *clientcmdapi.Config) bool {
		config.Clusters[entry] = added.Clusters[at.Cluster]
		config.AuthInfos[entry] = added.AuthInfos[at.AuthInfo]
		config.Contexts[entry] = &clientcmdapi.Context{Cluster: entry, AuthInfo: entry, Namespace: at.Namespace}
		config.CurrentContext = entry
		return true
	})
}

// Remove takes out what Merge added. Where the context is the current one, there is none afterwards. A file that Merge
// made, and in which nothing is left, is removed. What is not there is no error.
func Remove(ctx context.Context, file, entry string) error {
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return change(ctx, file, func(config *clientcmdapi.Config) bool {
		_, has := config.Contexts[entry]
		_, cluster := config.Clusters[entry]
		_, user := config.AuthInfos[entry]
		delete(config.Contexts, entry)
		delete(config.Clusters, entry)
		delete(config.AuthInfos, entry)
		if config.CurrentContext == entry {
			config.CurrentContext = ""
		}
		return has || cluster || user
	})
}

// change rewrites a file if edit tells that it changed it.
func change(ctx context.Context, file string, edit func(*clientcmdapi.Config) bool) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	unlock, err := lock(ctx, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	config, err := clientcmd.LoadFromFile(file)
	if errors.Is(err, os.ErrNotExist) {
		config, err = clientcmdapi.NewConfig(), nil
		config.Extensions[madeMark] = &runtime.Unknown{Raw: []byte(`{"made":true}`), ContentType: runtime.ContentTypeJSON}
	}
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	if !edit(config) {
		return nil
	}
	if isLeftover(config) {
		return os.Remove(file)
	}
	return clientcmd.WriteToFile(*config, file)
}

// madeMark is the extension of files that Merge made.
const madeMark = "quintet.dev/made"

// isLeftover tells whether nothing is in a file that Merge made.
func isLeftover(config *clientcmdapi.Config) bool {
	mark, made := config.Extensions[madeMark]
	empty := clientcmdapi.NewConfig()
	empty.Extensions[madeMark] = mark
	return made && equality.Semantic.DeepEqual(config, empty)
}

func lock(ctx context.Context, file string) (unlock func() error, err error) {
	name := file + ".lock"
	for {
		held, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0)
		if err == nil {
			return func() error { return errors.Join(held.Close(), os.Remove(name)) }, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("lock %s: %w", file, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s: %w; if no program is changing it, remove %s", file, ctx.Err(), name)
		case <-time.After(lockPoll):
		}
	}
}
