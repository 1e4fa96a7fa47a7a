package profiles
import ("testing";"fmt";"os")
func TestSmoke(t *testing.T){
 c:=Builtin()
 for _,n:=range c.ProfileNames(){ fmt.Printf("%s %s %+v\n",n,c.Profiles[n].Digest(),*c.Profiles[n])}
 _,err:=load(builtinFile,"b",nil); fmt.Println(err)
 cc,err:=LoadFile("testdata/sample.yaml"); fmt.Println(cc,err)
 _,err=Load([]byte("version: 2\nchian: {}\nchain: {budget: 100, max_budget: 2, deadlines: on, mode: enforse}\nprofiles:\n  a: {extends: b}\n  b: {extends: a, retry: {max_attempts: 0, statuses: [600, x, 429, 429], attempt_timeout: 400}}\n  read-heavy: {}\n  c: {hedge: {max: 3}, budget: {ratio: 10, burst: 1e3}}\ndependencies: {p: {profile: rade-heavy, owner: no, hosts: ['a*b', 'http://x', 'a:99999']}}\nservices: {x: {serves: [q], routes: {'POST /x/{': {budget: 2}, 'GET /a/{b}': {}, '/a/{c}/': {budget: 50}, '/{x}/b': {budget: 1}, '/a/{y}/': {budget: 1}}}}\n"),"f.yaml")
 fmt.Println(err)
 _ = os.Args
}
