package storage

import (
	"fmt"
	"strings"
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func storageClass() kindtest.Fixture {
	return kindtest.Fixture{Kind: storageClasses(), Object: `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast, creationTimestamp: "2026-01-02T12:00:00Z"}
provisioner: example.com/disk
`}
}

// pairs are n entries of a YAML map, with values of some length.
func pairs(n, length int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("k%d: v%s", i, strings.Repeat("x", length))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

func TestStorageClassValidation(t *testing.T) {
	storageClass().Create(t, kindtest.Table{
		"":                nil,
		"provisioner: ''": {"provisioner: Required value"},
		"provisioner: kubernetes.io/no-provisioner": nil,
		"provisioner: Example.com/Disk":             nil, // the case doesn't matter
		"provisioner: a b":                          {`provisioner: Invalid value: "a b": name part must consist...`},
		"provisioner: a/b/c": {
			`provisioner: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', ` +
				`'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name', ` +
				` or ` +
				`'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an option...`,
		},
		"reclaimPolicy: Retain": nil,
		"reclaimPolicy: Recycle": {
			`reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"`,
		},
		"volumeBindingMode: WaitForFirstConsumer": nil,
		"volumeBindingMode: Later": {
			`volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"`,
		},
		"volumeBindingMode: ''": {
			`volumeBindingMode: Unsupported value: "": supported values: "Immediate", "WaitForFirstConsumer"`,
		},
		"parameters: {'': x}":               {`parameters: Invalid value: "": field can not be empty.`},
		"parameters: " + pairs(512, 0):      nil,
		"parameters: " + pairs(513, 0):      {"parameters: Too long: may not be more than 512 bytes"},
		"parameters: " + pairs(2, 128*1024): {"parameters: Too long: may not be more than 262144 bytes"},
		"mountOptions: [anything, at all]":  nil,
	})
	storageClass().Stored(t, "create", kindtest.Table{
		"": {
			"reclaimPolicy: Delete",
			"volumeBindingMode: Immediate",
			"allowVolumeExpansion: null",
		},
		"reclaimPolicy: Retain":                   {"reclaimPolicy: Retain"},
		"volumeBindingMode: WaitForFirstConsumer": {"volumeBindingMode: WaitForFirstConsumer"},
	})
}

func TestAllowedTopologies(t *testing.T) {
	const terms = "allowedTopologies: "
	storageClass().Create(t, kindtest.Table{
		terms + "[{matchLabelExpressions: [{key: zone, values: [a, b]}, {key: rack, values: [a]}]}]": nil,
		terms + "[{matchLabelExpressions: [{key: zone, values: []}]}]": {
			"allowedTopologies[0].matchLabelExpressions[0].values: Required value",
		},
		terms + "[{matchLabelExpressions: [{key: zone, values: [a, a]}]}]": {
			`allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"`,
		},
		terms + "[{matchLabelExpressions: [{key: 'a b', values: [a]}]}]": {
			`allowedTopologies[0].matchLabelExpressions[0].key: Invalid value: "a b": name part must consist...`,
		},
		terms + "[{matchLabelExpressions: [{key: zone, values: [a]}, {key: zone, values: [b]}]}]": {
			`allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone"`,
		},
		terms + "[{matchLabelExpressions: [{key: zone, values: [a, b]}]}, {matchLabelExpressions: [{key: zone, " +
			"values: [b, a]}]}]": {
			`allowedTopologies[1].matchLabelExpressions: Duplicate value: ""`,
		},
		terms + "[{}]": {`allowedTopologies[0].matchLabelExpressions: Duplicate value: ""`},
	})
	storageClass().Warnings(t, "create", kindtest.Table{
		"": nil,
		terms + "[{matchLabelExpressions: [{key: failure-domain.beta.kubernetes.io/zone, values: [a]}]}]": {
			`allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use ` +
				`"topology.kubernetes.io/zone" instead`,
		},
	})
}

func TestStorageClassUpdate(t *testing.T) {
	storageClass().Update(t, kindtest.Table{
		"allowVolumeExpansion: true": nil,
		"mountOptions: [ro]":         nil,
		"metadata.labels.a: b":       nil,
		"allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [a]}]}]": nil,
		"parameters: {a: b}":          {`parameters: Invalid value: {"a":"b"}: field is immutable`},
		"provisioner: other.com/disk": {`provisioner: Invalid value: "other.com/disk": field is immutable`},
		"reclaimPolicy: Retain":       {`reclaimPolicy: Invalid value: "Retain": field is immutable`},
		"volumeBindingMode: WaitForFirstConsumer": {
			`volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable`,
		},
		"provisioner: ''": {"provisioner: Required value", `provisioner: Invalid value: "": field is immutable`},
	})
}

func TestStorageClassCells(t *testing.T) {
	storageClass().Cells(t, kindtest.Table{
		"": {"fast", "example.com/disk", "Delete", "Immediate", "false", "24h"},
		"allowVolumeExpansion: true; reclaimPolicy: Retain; volumeBindingMode: WaitForFirstConsumer": {
			"fast", "example.com/disk", "Retain", "WaitForFirstConsumer", "true", "24h",
		},
		`metadata.annotations["storageclass.kubernetes.io/is-default-class"]: "true"`: {
			"fast (default)", "example.com/disk", "Delete", "Immediate", "false", "24h",
		},
		`metadata.annotations["storageclass.beta.kubernetes.io/is-default-class"]: "true"`: {
			"fast (default)", "example.com/disk", "Delete", "Immediate", "false", "24h",
		},
		`metadata.annotations["storageclass.kubernetes.io/is-default-class"]: "false"`: {
			"fast", "example.com/disk", "Delete", "Immediate", "false", "24h",
		},
	})
}

func TestVolumeAttributesClass(t *testing.T) {
	class := kindtest.Fixture{Kind: volumeAttributesClasses(), Object: `
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold, creationTimestamp: "2026-01-02T12:00:00Z"}
driverName: example.com/disk
parameters: {iops: "5000"}
`}
	class.Create(t, kindtest.Table{
		"":                             nil,
		"driverName: ''":               {"driverName: Required value"},
		"driverName: a b":              {`driverName: Invalid value: "a b": name part must consist...`},
		"driverName: Example.com":      nil,
		"parameters: {}":               {"parameters: Required value: must contain at least one key/value pair"},
		"parameters: null":             {"parameters: Required value: must contain at least one key/value pair"},
		"parameters: {'': x}":          {`parameters: Invalid value: "": field can not be empty.`},
		"parameters: " + pairs(513, 0): {"parameters: Too long: may not be more than 512 bytes"},
	})
	class.Update(t, kindtest.Table{
		"metadata.labels.a: b":  nil,
		"driverName: other.com": {"driverName: Forbidden: updates to driverName are forbidden."},
		"parameters.iops: '9'":  {"parameters: Forbidden: updates to parameters are forbidden."},
		"parameters: {}; driverName: ''": {
			"driverName: Forbidden: updates to driverName are forbidden.",
			"parameters: Forbidden: updates to parameters are forbidden.",
			"driverName: Required value",
			"parameters: Required value: must contain at least one key/value pair",
		},
	})
	class.Cells(t, kindtest.Table{"": {"gold", "example.com/disk", "24h"}})
}
