package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func claimOf(change func(s *corev1.PersistentVolumeClaimSpec)) *corev1.PersistentVolumeClaimSpec {
	s := &corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
		Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage", "1Gi")}}
	change(s)
	return s
}

func TestClaimSpec(t *testing.T) {
	type spec = corev1.PersistentVolumeClaimSpec
	source := func(group *string, kind, name string) *corev1.TypedLocalObjectReference {
		return &corev1.TypedLocalObjectReference{APIGroup: group, Kind: kind, Name: name}
	}
	ref := func(group *string, kind, name string, namespace *string) *corev1.TypedObjectReference {
		return &corev1.TypedObjectReference{APIGroup: group, Kind: kind, Name: name, Namespace: namespace}
	}
	snapshots := new("snapshot.storage.k8s.io")
	for _, c := range []struct {
		name   string
		change func(s *spec)
		want   texts
	}{
		{"minimal", func(*spec) {}, nil},
		{"no modes", func(s *spec) { s.AccessModes = nil },
			texts{"accessModes: Required value: at least 1 access mode is required"}},
		{"no size", func(s *spec) { s.Resources.Requests = amounts("cpu", "1") },
			texts{"resources[storage]: Required value"}},
		{"size of nothing", func(s *spec) { s.Resources.Requests = amounts("storage", "0") },
			texts{`resources[storage]: Invalid value: "0": must be greater than zero`}},
		{"negative size", func(s *spec) { s.Resources.Requests = amounts("storage", "-1Gi") },
			texts{`resources[storage]: Invalid value: "-1Gi": must be greater than zero`}},
		{"selector", func(s *spec) { s.Selector = badSelector() },
			texts{`selector.matchExpressions[0].values[0]: Invalid value: "a b": a valid label must be…`}},
		{"no class", func(s *spec) { s.StorageClassName = new("") }, nil},
		{"bad class", func(s *spec) { s.StorageClassName = new("A") },
			texts{`storageClassName: Invalid value: "A": a lowercase RFC 1123 subdomain must…`}},
		{"block", func(s *spec) { s.VolumeMode = new(corev1.PersistentVolumeBlock) }, nil},
		{"bad mode", func(s *spec) { s.VolumeMode = new(corev1.PersistentVolumeMode("Tape")) },
			texts{`volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"`}},
		{"no attributes class", func(s *spec) { s.VolumeAttributesClassName = new("") }, nil},
		{"bad attributes class", func(s *spec) { s.VolumeAttributesClassName = new("A") },
			texts{`volumeAttributesClassName: Invalid value: "A": a lowercase RFC 1123 subdomain must…`}},
		{"clone", func(s *spec) { s.DataSource = source(nil, "PersistentVolumeClaim", "c") }, nil},
		{"snapshot", func(s *spec) { s.DataSource = source(snapshots, "VolumeSnapshot", "s") }, nil},
		{"source of nothing", func(s *spec) { s.DataSource = source(nil, "", "") }, texts{
			"dataSource.name: Required value", "dataSource.kind: Required value",
			`dataSource: Invalid value: "": must be 'PersistentVolumeClaim' when referencing the default apiGroup`}},
		{"pod", func(s *spec) { s.DataSource = source(new(""), "Pod", "p") }, texts{
			`dataSource: Invalid value: "Pod": must be 'PersistentVolumeClaim' when referencing the default apiGroup`}},
		{"bad group", func(s *spec) { s.DataSource = source(new("A"), "K", "n") },
			texts{`dataSource.apiGroup: Invalid value: "A": a lowercase RFC 1123 subdomain must…`}},
		{"bad group of the ref", func(s *spec) { s.DataSourceRef = ref(new("A"), "K", "n", nil) },
			texts{`dataSourceRef.apiGroup: Invalid value: "A": a lowercase RFC 1123 subdomain must…`}},
		{"both", func(s *spec) {
			s.DataSource, s.DataSourceRef = source(snapshots, "K", "n"), ref(snapshots, "K", "n", nil)
		}, nil},
		{"both, of other names", func(s *spec) {
			s.DataSource, s.DataSourceRef = source(snapshots, "K", "n"), ref(snapshots, "K", "m", nil)
		}, texts{`spec: Invalid value: {}: must match dataSourceRef`}},
		{"both, of other kinds", func(s *spec) {
			s.DataSource, s.DataSourceRef = source(snapshots, "K", "n"), ref(snapshots, "L", "n", new(""))
		}, texts{`spec: Invalid value: {}: must match dataSourceRef`}},
		{"both, of other groups", func(s *spec) {
			s.DataSource, s.DataSourceRef = source(snapshots, "K", "n"), ref(new("x.y"), "K", "n", nil)
		}, texts{`spec: Invalid value: {}: must match dataSourceRef`}},
		{"of another namespace", func(s *spec) { s.DataSourceRef = ref(snapshots, "K", "n", new("a")) }, nil},
		{"of a bad namespace", func(s *spec) { s.DataSourceRef = ref(snapshots, "K", "n", new("A")) },
			texts{`dataSourceRef.namespace: Invalid value: "A": a lowercase RFC 1123 label must…`}},
		{"both, of another namespace", func(s *spec) {
			s.DataSource, s.DataSourceRef = source(snapshots, "K", "n"), ref(snapshots, "K", "n", new("a"))
		}, texts{"spec: Invalid value: {}: may not be specified when dataSourceRef.namespace is specified"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sameTexts(t, errorsBelow("spec.", ClaimSpec(claimOf(c.change), field.NewPath("spec"))), c.want)
		})
	}
}

// TestClaimSpecUpdate: a selector that was bad may stay so, but for its keys.
func TestClaimSpecUpdate(t *testing.T) {
	with := func(s *metav1.LabelSelector) *corev1.PersistentVolumeClaimSpec {
		return claimOf(func(c *corev1.PersistentVolumeClaimSpec) { c.Selector = s })
	}
	badKey := badSelector()
	badKey.MatchExpressions[0].Key = "a b"
	for name, c := range map[string]struct {
		is, was *metav1.LabelSelector
		want    texts
	}{
		"stays": {badSelector(), badSelector(), nil},
		"comes": {badSelector(), nil, texts{`selector.matchExpressions[0].values[0]: Invalid value: "a b": a valid…`}},
		"key":   {badKey, badSelector(), texts{`selector.matchExpressions[0].key: Invalid value: "a b": name part…`}},
	} {
		t.Run(name, func(t *testing.T) {
			sameTexts(t, errorsBelow("", ClaimSpecUpdate(with(c.is), with(c.was), nil)), c.want)
		})
	}
}

func TestAccessModes(t *testing.T) {
	for _, c := range []struct {
		list []corev1.PersistentVolumeAccessMode
		want texts
	}{
		{[]corev1.PersistentVolumeAccessMode{"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"}, nil},
		{[]corev1.PersistentVolumeAccessMode{"ReadWriteOncePod"}, nil},
		{[]corev1.PersistentVolumeAccessMode{"ReadWriteOncePod", "ReadOnlyMany"},
			texts{"p: Forbidden: may not use ReadWriteOncePod with other access modes"}},
		{[]corev1.PersistentVolumeAccessMode{"RWX"}, texts{`p: Unsupported value: "RWX": supported values: ` +
			`"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`}},
	} {
		sameTexts(t, errorsBelow("", AccessModes(c.list, field.NewPath("p"))), c.want)
	}
}
