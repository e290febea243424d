package volumes

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		root, err := filepath.EvalSymlinks(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			found[filepath.Join(entry.Name(), name)] = string(data)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func payload(files map[string]string) map[string]file {
	p := map[string]file{}
	for name, data := range files {
		p[name] = file{data: []byte(data), mode: 0o640}
	}
	return p
}

func TestAtomicWriter(t *testing.T) {
	dir := t.TempDir()
	w := writer{dir: dir, now: func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }}
	var last string
	for step, files := range []map[string]string{
		{"a": "1", "sub/dir/b": "2"},
		{"a": "1", "sub/dir/b": "3"},
		{"sub/c": "4"},
		{},
		{"a": "5"},
	} {
		if err := w.write(payload(files)); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if got := tree(t, dir); !maps.Equal(got, files) {
			t.Errorf("step %d: %v, want %v", step, got, files)
		}
		target, err := os.Readlink(filepath.Join(dir, dataLink))
		if err != nil || target == last {
			t.Errorf("step %d: ..data leads to %q as before, %v", step, target, err)
		}
		last = target
		if err := w.write(payload(files)); err != nil {
			t.Fatal(err)
		}
		if again, _ := os.Readlink(filepath.Join(dir, dataLink)); again != target {
			t.Errorf("step %d: the same files were written again", step)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 { // a, ..data and what it leads to
		t.Errorf("left over: %v, %v", entries, err)
	}
	info, err := os.Stat(filepath.Join(dir, "a"))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestAtomicWriterRefusesWaysOut(t *testing.T) {
	w := writer{dir: t.TempDir(), now: time.Now}
	for _, name := range []string{"../a", "/a", "a/../../b", "..data", "..x", ""} {
		if err := w.write(payload(map[string]string{name: "x"})); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{"a", "a/b", "../a", "a/../..", "..data", "a//b", "./a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkPath(name) == nil && !strings.HasPrefix(filepath.Join("/root", name)+"/", "/root/") {
			t.Errorf("%q leads out", name)
		}
	})
}

// objects is a Volumes' source in memory.
type objects struct {
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
}

func (o objects) ConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	if object := o.configMaps[name]; object != nil {
		return object, nil
	}
	return nil, apierrors.NewNotFound(v1.Resource("configmaps"), name)
}

func (o objects) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	if object := o.secrets[name]; object != nil {
		return object, nil
	}
	return nil, apierrors.NewNotFound(v1.Resource("secrets"), name)
}

func manager(t *testing.T, client *fake.Clientset) (*Manager, *clocktesting.FakePassiveClock) {
	t.Helper()
	now := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	m := &Manager{
		Root: t.TempDir(), Clock: now, Client: client, Tokens: NewTokens(client, now),
		Allocatable: func() v1.ResourceList { return nil },
		Objects: objects{
			configMaps: map[string]*v1.ConfigMap{"cm": {Data: map[string]string{"k": "v", "l": "w"},
				BinaryData: map[string][]byte{"b": {0, 1}}}},
			secrets: map[string]*v1.Secret{"s": {Data: map[string][]byte{"p": []byte("secret")}}},
		},
	}
	t.Cleanup(func() {
		if err := m.Remove(context.Background(), "uid"); err != nil {
			t.Error(err)
		}
	})
	return m, now
}

func podWith(volumes ...v1.Volume) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns", UID: "uid", Labels: map[string]string{"app": "x"}},
		Spec:       v1.PodSpec{ServiceAccountName: "sa", Volumes: volumes, Containers: []v1.Container{{Name: "c"}}},
	}
}

func TestKindsOfVolumes(t *testing.T) {
	yes := true
	mode := int32(0o400)
	named := func(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }
	for name, test := range map[string]struct {
		source v1.VolumeSource
		want   map[string]string
		fails  string
	}{
		"config map": {source: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("cm")}},
			want: map[string]string{"k": "v", "l": "w", "b": "\x00\x01"}},
		"items": {source: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("cm"),
			Items: []v1.KeyToPath{{Key: "k", Path: "deep/er", Mode: &mode}}}}, want: map[string]string{"deep/er": "v"}},
		"missing": {source: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("no")}},
			fails: `"no" not found`},
		"missing, optional": {source: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("no"),
			Optional: &yes}}, want: map[string]string{}},
		"missing key": {source: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s",
			Items: []v1.KeyToPath{{Key: "q", Path: "q"}}}}, fails: "non-existent key: q"},
		"secret": {source: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}},
			want: map[string]string{"p": "secret"}},
		"downward": {source: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			{Path: "name", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}},
		}}}, want: map[string]string{"labels": `app="x"`, "name": "pod"}},
		"projected": {source: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named("cm"),
				Items: []v1.KeyToPath{{Key: "k", Path: "k"}}}},
			{Secret: &v1.SecretProjection{LocalObjectReference: named("s")}},
		}}}, want: map[string]string{"k": "v", "p": "secret"}},
		"not supported": {source: v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}, fails: "not supported"},
		"empty":         {source: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := manager(t, fake.NewClientset())
			paths, err := m.Mount(t.Context(), podWith(v1.Volume{Name: "v", VolumeSource: test.source}))
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("got %v, want %q", err, test.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := tree(t, paths["v"].Path); !maps.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A volume in memory is no larger than anything that bounds it.
func TestMemorySize(t *testing.T) {
	for name, test := range map[string]struct {
		asks              string
		limit, node, want int64
	}{
		"nothing known":    {},
		"what it asks for": {asks: "10", limit: 20, node: 30, want: 10},
		"its pod's limit":  {asks: "25", limit: 20, node: 30, want: 20},
		"none of its own":  {limit: 20, node: 30, want: 20},
		"all of the node":  {node: 30, want: 30},
		"less than asked":  {asks: "40", node: 30, want: 30},
		"asks for nothing": {asks: "0", node: 30, want: 30},
	} {
		m := &Manager{MemoryLimit: func(*v1.Pod) int64 { return test.limit }, Allocatable: func() v1.ResourceList {
			return v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(test.node, resource.BinarySI)}
		}}
		dir := &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}
		if test.asks != "" {
			dir.SizeLimit = new(resource.MustParse(test.asks))
		}
		if got := m.memorySize(&v1.Pod{}, dir); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestRemoveRefusesStrangeNames(t *testing.T) {
	m := &Manager{Root: t.TempDir()}
	for _, uid := range []string{"", "..", "../x", "/"} {
		if m.Remove(t.Context(), podUID(uid)) == nil {
			t.Errorf("%q was removed", uid)
		}
	}
}

func TestFSGroupOwnsFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	m, _ := manager(t, fake.NewClientset())
	pod := podWith(v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}})
	group := int64(4242)
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	paths, err := m.Mount(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(paths["v"].Path, "p"))
	if err != nil {
		t.Fatal(err)
	}
	if gid := groupOf(info); gid != 4242 || info.Mode().Perm()&0o040 == 0 {
		t.Errorf("group %d, mode %v", gid, info.Mode())
	}
}

func TestHostPathTypes(t *testing.T) {
	dir := t.TempDir()
	existing := filepath.Join(dir, "file")
	if err := os.WriteFile(existing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path string
		kind v1.HostPathType
		ok   bool
	}{
		{dir, v1.HostPathDirectory, true}, {existing, v1.HostPathFile, true}, {existing, v1.HostPathDirectory, false},
		{dir, v1.HostPathFile, false}, {filepath.Join(dir, "no"), v1.HostPathDirectory, false},
		{filepath.Join(dir, "new"), v1.HostPathDirectoryOrCreate, true},
		{filepath.Join(dir, "newfile"), v1.HostPathFileOrCreate, true},
		{"/dev/null", v1.HostPathCharDev, true}, {existing, v1.HostPathSocket, false}, {dir, "Strange", false},
		{filepath.Join(dir, "made"), v1.HostPathUnset, true},
	} {
		if _, err := hostPath(&v1.HostPathVolumeSource{Path: test.path, Type: &test.kind}); (err == nil) != test.ok {
			t.Errorf("%s as %q: %v", test.path, test.kind, err)
		}
	}
}

func TestSubPath(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "in")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := filepath.Join(t.TempDir(), "pod")
	t.Cleanup(func() {
		if err := unmountBelow(pod); err != nil {
			t.Error(err)
		}
	})
	for sub, ok := range map[string]bool{"new/dir": true, "in": true, "file": true, "out": false, "out/x": false,
		"../x": false, "/etc": false} {
		for range 2 { // a container that is restarted gets it again
			path, err := SubPath(Mounted{Path: dir}, sub,
				filepath.Join(pod, "volume-subpaths", "v", "c", strings.ReplaceAll(sub, "/", "-")))
			if (err == nil) != ok {
				t.Fatalf("%s: %q, %v", sub, path, err)
			}
			if !ok {
				continue
			}
			found, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if want, err := os.Stat(filepath.Join(dir, sub)); err != nil || !os.SameFile(found, want) {
				t.Errorf("%s: %q is something else (%v)", sub, path, err)
			}
		}
	}
}

func TestSubPathHasTheModeOfItsVolume(t *testing.T) {
	dir, pod := t.TempDir(), filepath.Join(t.TempDir(), "pod")
	if err := os.Chmod(dir, 0o777|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	if _, err := SubPath(Mounted{Path: dir}, "a/b", filepath.Join(pod, "target")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unmountBelow(pod); err != nil {
			t.Error(err)
		}
	})
	for _, sub := range []string{"a", "a/b"} {
		info, err := os.Stat(filepath.Join(dir, sub))
		if err != nil || info.Mode() != os.ModeDir|os.ModeSetgid|0o777 {
			t.Errorf("%s: mode %v, %v", sub, info.Mode(), err)
		}
	}
}

func TestTokensAreRenewed(t *testing.T) {
	client := fake.NewClientset()
	m, now := manager(t, client)
	issued := 0
	client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		issued++
		request := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
		if ref := request.Spec.BoundObjectRef; ref == nil || ref.Name != "pod" || ref.UID != "uid" {
			t.Errorf("bound to %+v", ref)
		}
		request = request.DeepCopy()
		request.Status = authenticationv1.TokenRequestStatus{Token: strings.Repeat("t", issued),
			ExpirationTimestamp: metav1.NewTime(now.Now().Add(time.Hour))}
		return true, request, nil
	})
	seconds := int64(3600)
	pod := podWith(v1.Volume{Name: "v",
		VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds,
				Audience: "aud"}},
		}}}})
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "t"}, {40 * time.Minute, "t"}, {9 * time.Minute, "tt"}, {time.Minute, "tt"}} {
		now.SetTime(now.Now().Add(step.after))
		paths, err := m.Mount(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		if got := tree(t, paths["v"].Path)["token"]; got != step.want {
			t.Errorf("after %v: %q, want %q", step.after, got, step.want)
		}
	}
}
