package fieldmanager

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/codec"
)

// scaleConverter does for Scale, which has one version, what converter does for a kind.
type scaleConverter struct{}

// ConvertToVersion implements runtime.ObjectConvertor.
func (scaleConverter) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	scale, ok := in.(*autoscalingv1.Scale)
	if !ok {
		u, ok := in.(runtime.Unstructured)
		if !ok {
			return nil, errNotConverted
		}
		scale = &autoscalingv1.Scale{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), scale); err != nil {
			return nil, err
		}
	}
	return codec.WithKind(scale, autoscalingv1.SchemeGroupVersion.WithKind("Scale")), nil
}

// Convert implements runtime.ObjectConvertor.
func (scaleConverter) Convert(any, any, any) error { return errNotConverted }

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (scaleConverter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements runtime.ObjectDefaulter.
func (scaleConverter) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (scaleConverter) New(schema.GroupVersionKind) (runtime.Object, error) {
	return codec.WithKind(&autoscalingv1.Scale{}, autoscalingv1.SchemeGroupVersion.WithKind("Scale")), nil
}

// customScaleConverter is for Scales of custom resources: fields are tracked only for those with apiVersion and kind,
// and none can be applied: as with upstream.
type customScaleConverter struct{ scaleConverter }

// ConvertToVersion implements runtime.ObjectConvertor.
func (c customScaleConverter) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	_, applied := in.(runtime.Unstructured)
	if applied || in.GetObjectKind().GroupVersionKind() != autoscalingv1.SchemeGroupVersion.WithKind("Scale") {
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s",
			autoscalingv1.SchemeGroupVersion)
	}
	return c.scaleConverter.ConvertToVersion(in, to)
}

// New implements runtime.ObjectCreater.
func (customScaleConverter) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}
