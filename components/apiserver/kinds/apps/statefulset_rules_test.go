package apps

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func statefulSet() kindtest.Fixture {
	return kindtest.Fixture{Kind: statefulSets(api.Deps{}), Object: `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default, creationTimestamp: "2026-01-02T12:00:00Z"}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: postgres}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`}
}

func TestStatefulSetValidation(t *testing.T) {
	statefulSet().Create(t, kindtest.Table{
		"": nil,
		"spec.replicas: 0; spec.podManagementPolicy: Parallel": nil,
		"spec.podManagementPolicy: Random": {
			`spec.podManagementPolicy: Invalid value: "Random": must be 'OrderedReady' or 'Parallel'`,
		},
		"spec.replicas: -1": {"spec.replicas: Invalid value: -1: must be greater than or equal to 0"},
		"spec.minReadySeconds: -1": {
			"spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.ordinals.start: -1":       {"spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"},
		"spec.ordinals.start: 3":        nil,
		"spec.revisionHistoryLimit: -1": nil, // of which there is a warning
		"spec.serviceName: ''":          nil,
		"spec.serviceName: A_b": {
			`spec.serviceName: Invalid value: "A_b": a lowercase RFC 1123 label must consist...`,
		},
		"spec.selector: null": {
			"spec.selector: Required value",
			"spec.template.metadata.labels: Invalid value: {\"app\":\"db\"}: `selector` does not match template " +
				"`labels`",
		},
		"spec.selector: {}": {"spec.selector: Invalid value: {}: empty selector is invalid for statefulset"},
		"spec.selector.matchLabels.app: a b": {
			`spec.selector.matchLabels: Invalid value: "a b": a valid label must...`,
			`spec.selector: Invalid value: {"matchLabels":{"app":"a b"}}`,
		},
		"spec.selector.matchLabels.app: web": {
			"spec.template.metadata.labels: Invalid value: {\"app\":\"db\"}: `selector` does not match template " +
				"`labels`",
		},
		"spec.template.spec.restartPolicy: Never": {
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`,
		},
		"spec.template.spec.activeDeadlineSeconds: 9": {
			"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not " +
				"Supported",
		},
		"spec.template.spec.containers: []": {
			"spec.template.spec.containers: Required value",
		},
		"spec.template.spec.containers[0].volumeMounts: [{name: data, mountPath: /data}]": nil,
		"spec.template.spec.containers[0].volumeMounts: [{name: other, mountPath: /data}]": {
			`spec.template.spec.containers[0].volumeMounts[0].name: Not found: "other"`,
		},
		// a label of DNS, as its pods' names are
		"metadata.name: db.v1": {`metadata.name: Invalid value: "db.v1": must not contain dots`},
		"metadata.name: Db":    {`metadata.name: Invalid value: "Db": a lowercase RFC 1123 label must consist...`},
	})
}

func TestStatefulSetUpdateStrategy(t *testing.T) {
	statefulSet().Create(t, kindtest.Table{
		"spec.updateStrategy: {type: OnDelete}":      nil,
		"spec.updateStrategy: {type: RollingUpdate}": nil,
		"spec.updateStrategy: {type: OnDelete, rollingUpdate: {partition: 1}}": {
			`spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only allowed ` +
				`for updateStrategy 'RollingUpdate'`,
		},
		"spec.updateStrategy: {type: Recreate}": {
			`spec.updateStrategy: Invalid value: {"Type":"Recreate","RollingUpdate":null}: must be 'RollingUpdate' ` +
				`or 'OnDelete'`,
		},
		"spec.updateStrategy: {rollingUpdate: {partition: -1}}": {
			"spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.updateStrategy: {rollingUpdate: {partition: 9}}": nil,
	})
}

func TestStatefulSetClaims(t *testing.T) {
	statefulSet().Create(t, kindtest.Table{
		"spec.persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}": nil,
		"spec.persistentVolumeClaimRetentionPolicy: {whenDeleted: Keep}": {
			`spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "Keep": supported values: ` +
				`"Retain", "Delete"`,
		},
		"spec.persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}": {
			`spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Keep": supported values: ` +
				`"Retain", "Delete"`,
		},
		"spec.volumeClaimTemplates: []": nil,
		"spec.volumeClaimTemplates[0].spec.accessModes: []": {
			"spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
		},
		"spec.volumeClaimTemplates[0].spec.accessModes: [ReadOnly]": {
			`spec.volumeClaimTemplates[0].spec.accessModes: Unsupported value: "ReadOnly": supported values: ` +
				`"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`,
		},
		"spec.volumeClaimTemplates[0].spec.resources: {}": {
			"spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
		},
		"spec.volumeClaimTemplates[0].spec.resources.requests.storage: '0'": {
			`spec.volumeClaimTemplates[0].spec.resources[storage]: Invalid value: "0": must be greater than zero`,
		},
		"spec.volumeClaimTemplates[0].spec.volumeMode: Tape": {
			`spec.volumeClaimTemplates[0].spec.volumeMode: Unsupported value: "Tape": supported values: "Block", ` +
				`"Filesystem"`,
		},
		"spec.volumeClaimTemplates[0].spec.storageClassName: A": {
			`spec.volumeClaimTemplates[0].spec.storageClassName: Invalid value: "A": a lowercase RFC 1123 ` +
				`subdomain must...`,
		},
	})
}

func TestStatefulSetDefaults(t *testing.T) {
	statefulSet().Stored(t, "create", kindtest.Table{
		"": {
			"spec.replicas: 1", "spec.revisionHistoryLimit: 10", "spec.podManagementPolicy: OrderedReady",
			"spec.updateStrategy.type: RollingUpdate", "spec.updateStrategy.rollingUpdate.partition: 0",
			"spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Retain",
			"spec.persistentVolumeClaimRetentionPolicy.whenScaled: Retain", "metadata.generation: 1",
			"spec.volumeClaimTemplates[0].kind: PersistentVolumeClaim", "spec.volumeClaimTemplates[0].apiVersion: v1",
			"spec.volumeClaimTemplates[0].spec.volumeMode: Filesystem",
			"spec.volumeClaimTemplates[0].status.phase: Pending",
		},
		"spec.updateStrategy: {type: OnDelete}":      {"spec.updateStrategy.rollingUpdate: null"},
		"spec.updateStrategy: {type: RollingUpdate}": {"spec.updateStrategy.rollingUpdate: null"},
		"spec.persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}": {
			"spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Retain",
			"spec.persistentVolumeClaimRetentionPolicy.whenScaled: Delete",
		},
		"status.replicas: 3": {"status.replicas: 0"},
	})
}

// TestStatefulSetMaxUnavailable: MaxUnavailableStatefulSet is off unless it was used already.
func TestStatefulSetMaxUnavailable(t *testing.T) {
	const path = "spec.updateStrategy.rollingUpdate.maxUnavailable"
	statefulSet().Stored(t, "create", kindtest.Table{path + ": 2": {path + ": null"}})
	statefulSet().Stored(t, "update", kindtest.Table{
		" => " + path + ": 2":           {path + ": null"},
		path + ": 1 => " + path + ": 2": {path + ": 2"},
	})
	statefulSet().Update(t, kindtest.Table{
		path + ": 1 => " + path + ": 50%":  nil,
		path + ": 1 => " + path + ": 0":    {path + ": Invalid value: 0: cannot be 0"},
		path + ": 1 => " + path + ": 0%":   {path + ": Invalid value: \"0%\": cannot be 0"},
		path + ": 1 => " + path + ": -1":   {path + ": Invalid value: -1: must be greater than or equal to 0"},
		path + ": 1 => " + path + ": 101%": {path + ": Invalid value: \"101%\": must not be greater than 100%"},
	})
}

func TestStatefulSetUpdate(t *testing.T) {
	const forbidden = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', " +
		"'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and " +
		"'minReadySeconds' are forbidden"
	set := statefulSet().With(t, "metadata.generation: 2; status: {replicas: 1}")
	set.Update(t, kindtest.Table{
		"spec.replicas: 3":       nil,
		"spec.ordinals.start: 2": nil,
		"spec.template.spec.containers[0].image: postgres:18":          nil,
		"spec.updateStrategy: {type: OnDelete}":                        nil,
		"spec.revisionHistoryLimit: 3":                                 nil,
		"spec.persistentVolumeClaimRetentionPolicy.whenScaled: Delete": nil,
		"spec.minReadySeconds: 3":                                      nil,
		"spec.serviceName: other":                                      {forbidden},
		// and that the name is none is not told
		"spec.serviceName: A_b":                                                        {forbidden},
		"spec.podManagementPolicy: Parallel":                                           {forbidden},
		"spec.volumeClaimTemplates[0].metadata.name: other":                            {forbidden},
		"spec.volumeClaimTemplates[0].spec.resources.requests.storage: 2Gi":            {forbidden},
		"spec.selector.matchLabels: {app: x}; spec.template.metadata.labels: {app: x}": {forbidden},
		"spec.replicas: -1; spec.serviceName: other": {
			"spec.replicas: Invalid value: -1: must be greater than or equal to 0",
			"spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', " +
				"'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and " +
				"'minReadySeconds' are forbidden",
		},
		"spec.ordinals.start: -1": {"spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"},
	})
	set.Stored(t, "update", kindtest.Table{
		"spec.replicas: 3":     {"metadata.generation: 3", "status.replicas: 1"},
		"metadata.labels.a: b": {"metadata.generation: 2"},
		"status.replicas: 9":   {"status.replicas: 1", "metadata.generation: 2"},
	})
}

func TestStatefulSetStatus(t *testing.T) {
	set := statefulSet().With(t, "status: {replicas: 3, readyReplicas: 2, currentReplicas: 3, updatedReplicas: 3, "+
		"availableReplicas: 2, collisionCount: 1}")
	set.Subresource(t, "status", kindtest.Table{
		"": nil,
		"status.replicas: 1": {
			"status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
			"status.currentReplicas: Invalid value: 3: cannot be greater than status.replicas",
			"status.updatedReplicas: Invalid value: 3: cannot be greater than status.replicas",
			"status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas",
		},
		"status.availableReplicas: 3": {
			"status.availableReplicas: Invalid value: 3: cannot be greater than status.readyReplicas",
		},
		"status: {replicas: -1, readyReplicas: -1, currentReplicas: -1, updatedReplicas: -1, availableReplicas: -1, " +
			"collisionCount: 1}": {
			"status.replicas: Invalid value: -1: must be greater than or equal to 0",
			"status.readyReplicas: Invalid value: -1: must be greater than or equal to 0",
			"status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
			"status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0",
			"status.availableReplicas: Invalid value: -1: must be greater than or equal to 0",
		},
		"status.observedGeneration: -1; status.collisionCount: -1": {
			"status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
			"status.collisionCount: Invalid value: -1: must be greater than or equal to 0",
			"status.collisionCount: Invalid value: -1: cannot be decremented",
		},
		"status.collisionCount: 0": {"status.collisionCount: Invalid value: 0: cannot be decremented"},
		"status.collisionCount: 2": nil,
	})
	set.Stored(t, "status", kindtest.Table{
		"spec.replicas: 9; status.replicas: 4": {"spec.replicas: 1", "status.replicas: 4"},
	})
}

func TestStatefulSetCells(t *testing.T) {
	statefulSet().Cells(t, kindtest.Table{
		"": {"db", "0/1", "24h", "c", "postgres"},
		"spec.replicas: 3; status.readyReplicas: 2": {"db", "2/3", "24h", "c", "postgres"},
	})
	statefulSet().Warnings(t, "create", kindtest.Table{
		"": nil,
		"spec.revisionHistoryLimit: -1": {
			"spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is " +
				"recommended",
		},
		"spec.volumeClaimTemplates[0].spec.resources.requests.storage: 500m": {
			`spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "500m" is invalid, ` +
				`must be an integer`,
		},
	})
}

func TestStatefulSetScale(t *testing.T) {
	f := statefulSet()
	obj, _ := kindtest.Decode(t, f.Kind, kindtest.Parse(t, f.With(t, "status.replicas: 4").Object))
	scale := f.Kind.Subresource("scale").Scale
	scale.Set(obj, 2)
	if spec, status := scale.Get(obj); spec.Replicas != 2 || status.Replicas != 4 || status.Selector != "app=db" {
		t.Errorf("got %v, %v", spec, status)
	}
}
