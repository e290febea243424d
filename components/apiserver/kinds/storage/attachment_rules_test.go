package storage

import (
	"strings"
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func volumeAttachment() kindtest.Fixture {
	return kindtest.Fixture{Kind: volumeAttachments(), Object: `
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: a, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {attacher: disk.example.com, nodeName: node-1, source: {persistentVolumeName: pv-1}}
`}
}

func TestVolumeAttachmentValidation(t *testing.T) {
	const inline = "inlineVolumeSpec: {accessModes: [ReadWriteOnce], csi: {driver: disk.example.com, volumeHandle: v}}"
	volumeAttachment().Create(t, kindtest.Table{
		"":                   nil,
		"spec.attacher: ''":  {"spec.attacher: Required value"},
		"spec.attacher: a_b": {`spec.attacher: Invalid value: "a_b": a lowercase RFC 1123 subdomain must...`},
		"spec.nodeName: ''":  {`spec.nodeName: Invalid value: "": a lowercase RFC 1123 subdomain must...`},
		"spec.nodeName: A":   {`spec.nodeName: Invalid value: "A": a lowercase RFC 1123 subdomain must...`},
		"spec.source: {}": {
			"spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
		},
		"spec.source: {persistentVolumeName: ''}": {
			"spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName",
			`spec.source.persistentVolumeName: Invalid value: "": a lowercase RFC 1123 subdomain must...`,
		},
		"spec.source: {persistentVolumeName: A}": {
			`spec.source.persistentVolumeName: Invalid value: "A": a lowercase RFC 1123 subdomain must...`,
		},
		"spec.source: {" + inline + "}": nil,
		"spec.source: {persistentVolumeName: pv-1, " + inline + "}": {
			"spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
		},
		"spec.source: {inlineVolumeSpec: {accessModes: [ReadWriteOnce], hostPath: {path: /}}}": {
			"spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
		},
	})
	volumeAttachment().Stored(t, "create", kindtest.Table{"status.attached: true": {"status.attached: false"}})
}

func TestVolumeAttachmentStatus(t *testing.T) {
	volumeAttachment().Subresource(t, "status", kindtest.Table{
		"status: {attached: true, attachmentMetadata: {a: b}}": nil,
		"status: {attached: false, attachmentMetadata: " + pairs(2, 128*1024) + "}": {
			"status.attachmentMetadata: Too long: may not be more than 262144 bytes",
		},
		"status: {attached: false, attachError: {message: " + strings.Repeat("x", 1024) + "}}": nil,
		"status: {attached: false, attachError: {message: " + strings.Repeat("x", 1025) + "}}": {
			"status.attachError.message: Too long: may not be more than 262144 bytes", // though the bound is 1024
		},
		"status: {attached: false, attachError: {errorCode: -1}, detachError: {errorCode: -2}}": {
			"status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
			"status.detachError.errorCode: Invalid value: -2: must be between 0 and 2147483647, inclusive",
		},
		"status: {attached: false, detachError: {errorCode: 0}}": nil,
	})
	volumeAttachment().Stored(t, "status", kindtest.Table{
		"status.attached: true; spec.nodeName: other; metadata.labels.a: b": {
			"status.attached: true", "spec.nodeName: node-1", "metadata.labels: null",
		},
	})
	volumeAttachment().Update(t, kindtest.Table{
		"metadata.finalizers: [a/b]":              nil,
		"spec.nodeName: other":                    {"spec: Invalid value: {..."},
		"spec.source.persistentVolumeName: other": {"spec: Invalid value: {..."},
	})
	volumeAttachment().Stored(t, "update", kindtest.Table{
		"status.attached: true => status.attached: false": {"status.attached: true"},
	})
	volumeAttachment().Cells(t, kindtest.Table{
		"":                                       {"a", "disk.example.com", "pv-1", "node-1", "false", "24h"},
		"status.attached: true; spec.source: {}": {"a", "disk.example.com", "", "node-1", "true", "24h"},
	})
}

func TestCSIStorageCapacity(t *testing.T) {
	capacity := kindtest.Fixture{Kind: csiStorageCapacities(), Object: `
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: c, namespace: default}
storageClassName: fast
nodeTopology: {matchLabels: {zone: a}}
`}
	capacity.Create(t, kindtest.Table{
		"":                        nil,
		"nodeTopology: null":      nil,
		"capacity: 0":             nil,
		"capacity: '-1'":          {`capacity: Invalid value: "-1": must be greater than or equal to 0`},
		"maximumVolumeSize: '-1'": nil, // upstream doesn't look at it
		"storageClassName: ''":    {`storageClassName: Invalid value: "": a lowercase RFC 1123 subdomain must...`},
		"storageClassName: A":     {`storageClassName: Invalid value: "A": a lowercase RFC 1123 subdomain must...`},
		"nodeTopology.matchLabels.zone: a b": {
			`nodeTopology.matchLabels: Invalid value: "a b": a valid label must...`,
		},
		"nodeTopology: {matchExpressions: [{key: a, operator: In}]}": {
			"nodeTopology.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or " +
				"'NotIn'",
		},
	})
	capacity.Update(t, kindtest.Table{
		"capacity: 5Gi":          nil,
		"storageClassName: slow": {`storageClassName: Invalid value: "slow": field is immutable`},
		"nodeTopology.matchLabels.zone: b": {
			`nodeTopology: Invalid value: {"matchLabels":{"zone":"b"}}: field is immutable`,
		},
		"nodeTopology.matchLabels.zone: a b => capacity: 1": {
			`nodeTopology.matchLabels: Invalid value: "a b": a valid label must...`,
		}, // of match labels none may be bad
		"nodeTopology: {matchExpressions: [{key: a, operator: In, values: ['b c']}]} => capacity: 1": nil,
	})
	capacity.Warnings(t, "create", kindtest.Table{
		"": nil,
		"nodeTopology.matchLabels: {beta.kubernetes.io/arch: amd64}": {
			`nodeTopology.matchLabels.beta.kubernetes.io/arch: deprecated since v1.14; use "kubernetes.io/arch" ` +
				`instead`,
		},
	})
}
