package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/checks"
	"quintet.dev/quintet/cluster"
)

const (
	// makes is how many objects a maker makes at least.
	makes = 8
	// foundSeed decides before which of them a fault begins.
	foundSeed = 5
)

// memberFault begins a fault of a member, and returns what heals it.
type memberFault struct {
	name  string
	begin func(ctx context.Context, w *world) (cluster.Heal, error)
	size  int // of objects, in bytes: a disk is only full for what it has no room left for
}

func memberFaults() []memberFault {
	etcd := func(w *world) *cluster.Member { return w.Member("etcd-0") }
	server := func(w *world) *cluster.Member { return w.Member("apiserver-0") }
	return []memberFault{
		{name: "kill", begin: func(ctx context.Context, w *world) (cluster.Heal, error) {
			return server(w).Start, server(w).Kill(ctx)
		}},
		{name: "pause", begin: func(ctx context.Context, w *world) (cluster.Heal, error) {
			return server(w).Unpause, server(w).Pause(ctx)
		}},
		{name: "cut", begin: func(ctx context.Context, w *world) (cluster.Heal, error) {
			return w.Cut(ctx, server(w), etcd(w))
		}},
		{name: "delay", begin: func(ctx context.Context, w *world) (cluster.Heal, error) {
			return w.Delay(ctx, etcd(w), 5*time.Second, 0)
		}},
		{name: "loss", begin: func(ctx context.Context, w *world) (cluster.Heal, error) {
			return w.Lose(ctx, server(w), 1)
		}},
		{name: "full disk", size: 1 << 19, begin: func(ctx context.Context, w *world) (cluster.Heal, error) {
			heal, err := w.FillDisk(ctx, etcd(w), 0)
			return func(ctx context.Context) error {
				if err := heal(ctx); err != nil {
					return err
				}
				return etcd(w).Start(ctx) // it ends where it can't write
			}, err
		}},
	}
}

// maker makes objects, while a fault is in force from one of them until a request fails. The planted bug gives up with
// that request; a program that is right sends it again.
type maker struct {
	*world
	fault   memberFault
	planted bool
	struck  int // the object that the first failing request was for, -1 without
}

// run returns which objects are missing.
func (m *maker) run(ctx context.Context, from int) (missing []string) {
	objects := m.client.CoreV1().ConfigMaps(space)
	var heal cluster.Heal
	defer func() {
		if heal != nil {
			m.must(heal(ctx), "heal")
		}
	}()
	m.struck = -1
	var names []string
	for i := 0; i < makes || m.struck < 0 || i < m.struck+3; i++ {
		names = append(names, fmt.Sprintf("made-%d", i))
		if i == from {
			var err error
			heal, err = m.fault.begin(ctx, m.world)
			m.must(err, "begin %s", m.fault.name)
		}
		gaveUp := m.planted && m.struck >= 0
		for try := 0; !gaveUp; try++ {
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: names[i], Labels: map[string]string{"made": "yes"}},
				Data: map[string]string{"x": strings.Repeat("x", m.fault.size)}}
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			_, err := objects.Create(short, obj, metav1.CreateOptions{})
			cancel()
			if err == nil || apierrors.IsAlreadyExists(err) {
				break
			}
			if m.struck < 0 {
				m.struck = i
				m.must(heal(ctx), "heal")
				heal = nil
				m.must(m.WaitAPI(ctx), "wait for the API server")
			}
			gaveUp = m.planted
		}
	}
	return m.missing(ctx, names)
}

// missing compares with a list, and deletes all that was made.
func (m *maker) missing(ctx context.Context, names []string) (missing []string) {
	objects, made := m.client.CoreV1().ConfigMaps(space), metav1.ListOptions{LabelSelector: "made=yes"}
	var list *corev1.ConfigMapList
	m.Eventually(func() (err error) { list, err = objects.List(ctx, made); return err }).Should(Succeed())
	there := map[string]bool{}
	for _, obj := range list.Items {
		there[obj.Name] = true
	}
	for _, name := range names {
		if !there[name] {
			missing = append(missing, name)
		}
	}
	m.Eventually(func() error {
		return objects.DeleteCollection(ctx, metav1.DeleteOptions{}, made)
	}).Should(Succeed(), "delete what was made")
	return missing
}

// TestMemberFaultsFindAPlantedBug: under each fault of a member a program that is right passes, and a bug is found, and
// found again by its seed. Informers have what a list has in the end.
func TestMemberFaultsFindAPlantedBug(t *testing.T) {
	w := start(t, cluster.WithNodes(0), cluster.WithDiskSize(256<<20))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	informers, err := checks.StartInformers(ctx, w.RESTConfig(), corev1.SchemeGroupVersion.WithResource("configmaps"))
	w.must(err, "start informers")
	defer informers.Wait()
	defer cancel()
	for n, fault := range memberFaults() {
		t.Run(fault.name, func(t *testing.T) {
			from := rand.New(rand.NewPCG(foundSeed, uint64(n))).IntN(makes - 2)
			right := maker{world: w, fault: fault}
			if missing := right.run(ctx, from); len(missing) > 0 || right.struck < from {
				t.Errorf("a program that is right lacks %v; the fault struck at %d of %d", missing, right.struck, from)
			}
			for range 2 {
				bug := maker{world: w, fault: fault, planted: true}
				missing := bug.run(ctx, from)
				if len(missing) < 2 || bug.struck < from || fault.size == 0 && bug.struck != from {
					t.Errorf("the bug is not found: missing %v; the fault struck at %d of %d", missing, bug.struck, from)
				}
			}
		})
	}
	ending, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	w.must(informers.Equal(ending, w.RESTConfig()), "compare informers")
}
