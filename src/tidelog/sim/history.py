class History:
    def send(self,*a): return 0
    def acknowledged(self,*a): pass
    def polled(self,*a): pass
    def reassigned(self,*a): pass
