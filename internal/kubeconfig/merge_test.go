package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func encoded(t *testing.T, name string) []byte {
	t.Helper()
	content, err := Encode(name, "https://"+name, []byte("ca"), Identity{User: "u", Token: "t-" + name})
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestMergeAndRemove: what others have in the file stays, and what was merged goes without a trace.
func TestMergeAndRemove(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "config")
	for _, name := range []string{"a", "b", "a"} {
		if err := Merge(t.Context(), file, "quintet-"+name, encoded(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := config.Contexts["quintet-b"]
	if len(config.Contexts) != 2 || config.CurrentContext != "quintet-a" || at.Cluster != "quintet-b" ||
		config.Clusters[at.Cluster].Server != "https://b" || config.AuthInfos[at.AuthInfo].Token != "t-b" {
		t.Errorf("%+v", config)
	}
	for _, name := range []string{"a", "a"} {
		if err := Remove(t.Context(), file, "quintet-"+name); err != nil {
			t.Fatal(err)
		}
	}
	if config, err = clientcmd.LoadFromFile(file); err != nil {
		t.Fatal(err)
	}
	if len(config.Contexts) != 1 || len(config.Clusters) != 1 || len(config.AuthInfos) != 1 ||
		config.CurrentContext != "" {
		t.Errorf("%+v", config)
	}
	if err := Remove(t.Context(), file, "quintet-b"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file that was made is still there: %v", err)
	}
	if err := Remove(t.Context(), file+"-none", "x"); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestFilesThatStay: those that were there before the merge, however empty, and those with something of others.
func TestFilesThatStay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	for name, prepare := range map[string]func() error{
		"an empty file": func() error { return os.WriteFile(file, nil, 0o600) },
		"preferences": func() error {
			err := Merge(t.Context(), file, "x", encoded(t, "x"))
			content, _ := os.ReadFile(file)
			text := strings.Replace(string(content), "kind: Config\n", "kind: Config\npreferences: {colors: true}\n", 1)
			return errors.Join(err, os.WriteFile(file, []byte(text), 0o600))
		},
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		if err := Merge(t.Context(), file, "x", encoded(t, "x")); err != nil {
			t.Fatal(err)
		}
		if err := Remove(t.Context(), file, "x"); err != nil {
			t.Fatal(err)
		}
		if config, err := clientcmd.LoadFromFile(file); err != nil || len(config.Contexts) > 0 {
			t.Errorf("%s: %+v, %v", name, config, err)
		}
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}
}

// TestMergesAtOnce: none is lost, and the lock is gone.
func TestMergesAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var group sync.WaitGroup
	for i := range 8 {
		content := encoded(t, fmt.Sprint(i))
		group.Go(func() {
			if err := Merge(ctx, file, fmt.Sprint(i), content); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	config, err := clientcmd.LoadFromFile(file)
	if err != nil || len(config.Contexts) != 8 {
		t.Errorf("%+v, %v", config, err)
	}
	if _, err := os.Stat(file + ".lock"); !os.IsNotExist(err) {
		t.Errorf("the lock is still there: %v", err)
	}
}

func TestLockedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Merge(ctx, file, "x", encoded(t, "x")); err == nil || !strings.Contains(err.Error(),
		"remove "+file+".lock") {
		t.Errorf("%v", err)
	}
}
