/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package inside

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// services forwards connections to the Pods of Services, and resolves the names of Services, in place of kube-proxy and
// CoreDNS. It needs no firewall, because all addresses of Services are addresses of the node.
type services struct {
	fixed Names

	mu    sync.Mutex
	names Names
	ports map[netip.AddrPort]*servicePort
}

// servicePort is a port of a Service. Its endpoints take turns.
type servicePort struct {
	listener  net.Listener
	endpoints []netip.AddrPort
	turn      int
}

func newServices(fixed Names) *services {
	return &services{fixed: fixed, ports: map[netip.AddrPort]*servicePort{}}
}

// find returns the address of a name.
func (s *services) find(name string) (netip.Addr, bool) {
	if address, ok := s.fixed[name]; ok {
		return address, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	address, ok := s.names[name]
	return address, ok
}

// follow keeps names and ports equal to the Services of the API server. Until it responds, there are none.
func (s *services) follow(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	all, endpoints := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // an earlier change has not been handled yet
		}
	}
	for _, informer := range []cache.SharedIndexInformer{all.Informer(), endpoints.Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { notify() }, UpdateFunc: func(_, _ any) { notify() }, DeleteFunc: func(any) { notify() },
		})
		if err != nil {
			return err
		}
	}
	factory.Start(context.Background().Done())
	for range changed {
		listed, err := all.Lister().List(labels.Everything())
		if err != nil {
			return err
		}
		ready, err := endpoints.Lister().List(labels.Everything())
		if err != nil {
			return err
		}
		s.set(namesOf(listed), portsOf(listed, ready))
	}
	return nil
}

// namesOf returns the addresses of Services that have one, by name.
func namesOf(all []*corev1.Service) Names {
	names := Names{}
	for _, service := range all {
		if address, err := netip.ParseAddr(service.Spec.ClusterIP); err == nil {
			names[service.Name+"."+service.Namespace+".svc.cluster.local"] = address
		}
	}
	return names
}

// portsOf returns the TCP ports of Services with a selector, and the addresses of their ready Pods.
func portsOf(all []*corev1.Service, endpoints []*discoveryv1.EndpointSlice) map[netip.AddrPort][]netip.AddrPort {
	ports := map[netip.AddrPort][]netip.AddrPort{}
	for _, service := range all {
		address, err := netip.ParseAddr(service.Spec.ClusterIP)
		if err != nil || len(service.Spec.Selector) == 0 {
			continue
		}
		for _, port := range service.Spec.Ports {
			if port.Protocol == corev1.ProtocolTCP {
				ports[netip.AddrPortFrom(address, uint16(port.Port))] = endpointsOf(service, port.Name, endpoints)
			}
		}
	}
	return ports
}

func endpointsOf(service *corev1.Service, port string, all []*discoveryv1.EndpointSlice) []netip.AddrPort {
	var found []netip.AddrPort
	for _, slice := range all {
		if slice.Namespace != service.Namespace || slice.Labels[discoveryv1.LabelServiceName] != service.Name {
			continue
		}
		at := slices.IndexFunc(slice.Ports, func(each discoveryv1.EndpointPort) bool { return *each.Name == port })
		if at < 0 || slice.Ports[at].Port == nil {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			address, err := netip.ParseAddr(endpoint.Addresses[0])
			if err == nil && endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
				found = append(found, netip.AddrPortFrom(address, uint16(*slice.Ports[at].Port)))
			}
		}
	}
	return found
}

// set replaces the names and ports. Listeners of unchanged ports stay open.
func (s *services) set(names Names, ports map[netip.AddrPort][]netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = names
	for address, port := range s.ports {
		if _, ok := ports[address]; !ok {
			_ = port.listener.Close()
			delete(s.ports, address)
		}
	}
	for address, endpoints := range ports {
		if port, ok := s.ports[address]; ok {
			port.endpoints = endpoints
			continue
		}
		listener, err := net.Listen("tcp", address.String())
		if err != nil {
			fmt.Fprintln(os.Stderr, "init: a Service can't be reached:", err)
			continue
		}
		port := &servicePort{listener: listener, endpoints: endpoints}
		s.ports[address] = port
		go relay(listener, func() (net.Conn, error) { return s.dial(port) })
	}
}

// dial connects to the next endpoint.
func (s *services) dial(port *servicePort) (net.Conn, error) {
	s.mu.Lock()
	if len(port.endpoints) == 0 {
		s.mu.Unlock()
		return nil, fmt.Errorf("no Pod is ready behind %s", port.listener.Addr())
	}
	port.turn++
	endpoint := port.endpoints[port.turn%len(port.endpoints)]
	s.mu.Unlock()
	return net.Dial("tcp", endpoint.String())
}
