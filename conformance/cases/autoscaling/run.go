package autoscaling

import (
	"context"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/suite"
)

// target makes a deployment, whose pods wait for a scheduler that there isn't.
func target(ctx context.Context, t *suite.T, replicas int32) {
	labels := map[string]string{"app": "target"}
	_, err := t.Client.AppsV1().Deployments(t.Namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "target"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					SchedulerName: "none", Containers: []corev1.Container{{Name: "main", Image: t.Image}},
				},
			},
		},
	}, metav1.CreateOptions{})
	t.Must(err, "create the deployment")
}

// scaler makes an autoscaler of the target with a metric that nothing serves.
func scaler(ctx context.Context, t *suite.T, name string, least, most int32) {
	one := resource.MustParse("1")
	_, err := t.Client.AutoscalingV2().HorizontalPodAutoscalers(t.Namespace).Create(ctx,
		&autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
					APIVersion: "apps/v1", Kind: "Deployment", Name: "target",
				},
				MinReplicas: &least, MaxReplicas: most,
				Metrics: []autoscalingv2.MetricSpec{{
					Type: autoscalingv2.PodsMetricSourceType,
					Pods: &autoscalingv2.PodsMetricSource{
						Metric: autoscalingv2.MetricIdentifier{Name: "conformance-missing"},
						Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &one},
					},
				}},
			},
		}, metav1.CreateOptions{})
	t.Must(err, "create the autoscaler")
}

func replicas(t *suite.T) func(context.Context) (int32, error) {
	return func(ctx context.Context) (int32, error) {
		d, err := t.Client.AppsV1().Deployments(t.Namespace).Get(ctx, "target", metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		return *d.Spec.Replicas, nil
	}
}

// waitInactive waits until an autoscaler tells that it does not scale, for the reason.
func waitInactive(ctx context.Context, t *suite.T, name, reason string) {
	suite.WaitFor(ctx, t, "autoscaler "+name+" inactive",
		func(ctx context.Context) (*autoscalingv2.HorizontalPodAutoscaler, error) {
			return t.Client.AutoscalingV2().HorizontalPodAutoscalers(t.Namespace).Get(ctx, name, metav1.GetOptions{})
		}, HaveField("Status.Conditions", ContainElement(And(
			HaveField("Type", autoscalingv2.ScalingActive), HaveField("Status", corev1.ConditionFalse),
			HaveField("Reason", reason)))))
}

func minReplicas(ctx context.Context, t *suite.T) {
	target(ctx, t, 1)
	scaler(ctx, t, "scaler", 3, 5)
	suite.WaitFor(ctx, t, "the least size", replicas(t), BeEquivalentTo(3))
}

func maxReplicas(ctx context.Context, t *suite.T) {
	target(ctx, t, 5)
	scaler(ctx, t, "scaler", 1, 2)
	suite.WaitFor(ctx, t, "the greatest size", replicas(t), BeEquivalentTo(2))
}

func disabled(ctx context.Context, t *suite.T) {
	target(ctx, t, 0)
	scaler(ctx, t, "scaler", 2, 5)
	waitInactive(ctx, t, "scaler", "ScalingDisabled")
	suite.Never(ctx, t, "the target is scaled", replicas(t), Not(BeEquivalentTo(0)))
}

func missingMetric(ctx context.Context, t *suite.T) {
	target(ctx, t, 2)
	scaler(ctx, t, "scaler", 1, 5)
	waitInactive(ctx, t, "scaler", "FailedGetPodsMetric")
	suite.Never(ctx, t, "the target is scaled", replicas(t), Not(BeEquivalentTo(2)))
}

func ambiguous(ctx context.Context, t *suite.T) {
	target(ctx, t, 1)
	scaler(ctx, t, "one", 1, 5)
	scaler(ctx, t, "two", 1, 3)
	waitInactive(ctx, t, "one", "AmbiguousSelector")
	waitInactive(ctx, t, "two", "AmbiguousSelector")
	suite.Never(ctx, t, "the target is scaled", replicas(t), Not(BeEquivalentTo(1)))
}
